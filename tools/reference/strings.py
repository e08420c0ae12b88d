"""The 500 strings of the tokenizer goldens: written ones by subject, then seeded mixtures of them.

Goal: every branch of every pre-tokenizer expression, of the SentencePiece merge loop and of the
special-token scan is taken. All strings are valid UTF-8; broken UTF-8 is a test of its own.
"""
import random

STRING_COUNT = 500

PROSE = [
    "", " ", "  ", "   ", "a", "A", "0", ".", "Hello, world!", " Hello, world!", "Hello,  world! ",
    "The quick brown fox jumps over the lazy dog.",
    "Few stops, few waits, few copies: that is what makes a small machine fast.",
    "A sentence ends here.And the next begins without a space.",
    "snake_case, kebab-case, camelCase, PascalCase and SCREAMING_CASE",
    "antidisestablishmentarianism unreachability counterrevolutionaries",
    "\u201cCurly quotes\u201d, \u2018single ones\u2019, dashes \u2013 and \u2014, and an ellipsis\u2026",
    "It was 5 o'clock (or so) -- maybe later; who knows?!",
    "naïve café résumé coöperate façade jalapeño Ångström",
    "Größe, Straße, ÄÖÜ äöü ß ẞ",
    "L'été dernier, j'ai vu qu'il n'y avait personne à l'hôtel.",
    "¿Dónde está el baño? ¡Qué lástima, señor Núñez!",
    "Não há nada melhor do que um pão de queijo à tarde.",
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "İstanbul'da ılık bir ışık, IĞDIR'da soğuk.",
    "Tiếng Việt có nhiều dấu thanh: ngã, hỏi, sắc, huyền, nặng.",
    "Ég get etið gler án þess að meiða mig. Þórður og Æsa.",
    "Saya suka belajar bahasa Indonesia setiap hari.",
    "Unicode ﬁ ﬂ ﬃ ligatures, ǅ titlecase, ŉ and ſ long s",
]

SCRIPTS = [
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Чуєш їх, доцю, га? Кумедна ж ти, прощайся без ґольфів!",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Τι κάνεις; ΣΊΣΥΦΟΣ",
    "我能吞下玻璃而不伤身体。", "我能吞下玻璃而不傷身體。今天天氣很好,我們去公園散步吧!",
    "私はガラスを食べられます。それは私を傷つけません。", "カタカナとひらがなと漢字が混ざった文章です。ｶﾅ半角",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요.", "브라우저에서 언어 모델을 실행합니다 ㅋㅋㅋ",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني.", "السَّلَامُ عَلَيْكُمْ وَرَحْمَةُ اللَّهِ",
    "אני יכול לאכול זכוכית וזה לא מזיק לי.", "שָׁלוֹם עֲלֵיכֶם",
    "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती.", "क्षत्रिय ज्ञान श्री ऋषि",
    "আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না।", "நான் கண்ணாடி சாப்பிடுவேன்", "నేను గాజు తినగలను",
    "ನನಗೆ ಹಾನಿ ಆಗದೆ, ನಾನು ಗಾಜನ್ನು ತಿನಬಹುದು", "എനിക്ക് ഗ്ലാസ് തിന്നാം", "ફૂલ ગુજરાતી", "ਪੰਜਾਬੀ ਗੁਰਮੁਖੀ",
    "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ", "ຂ້ອຍກິນແກ້ວໄດ້", "ကျွန်တော် မှန်စားနိုင်တယ်", "ខ្ញុំអាចញុំកញ្ចក់បាន",
    "မြန်မာ", "བོད་སྐད་ཀྱི་ཡིག", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ", "Монгол кирилл үсэг өө",
    "მინას ვჭამ და არა მტკივა. ᲛᲗᲐᲕᲠᲣᲚᲘ", "Կրնամ ապակի ուտել և ինծի անհանգիստ չըներ։",
    "ኢትዮጵያ ውስጥ ብርጭቆ መብላት እችላለሁ።", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꭳꮎꮃꭹ", "ᐃᓄᒃᑎᑐᑦ", "ⵜⴰⵎⴰⵣⵉⵖⵜ", "ߒߞߏ", "ꦧꦱꦗꦮ", "𐐔𐐯𐑅𐐨𐑉𐐯𐐻 𐐪𐑊𐑁𐐩𐐺𐐯𐐻",
    "𓀀𓁐𓃒𓆣", "𒀀𒈾𒆠", "𝓜𝓪𝓽𝓱 𝔣𝔯𝔞𝔨𝔱𝔲𝔯 𝟙𝟚𝟛 𝒷ℯ𝓉𝒶", "ꓡꓲꓢꓴ", "𞤀𞤣𞤤𞤢𞤥",
    "mixed Русский and 中文 with العربية and हिन्दी 123", "ελληνικά-русский_中文.日本語/한국어",
]

DIGITS = [
    "1", "12", "123", "1234", "12345", "123456", "1234567890", "3.14159265358979", "-273.15", "+1-202-555-0173",
    "1,000,000.00", "0x1F 0b1010 0o777", "1e-9 6.022e23", "2026-11-30T04:05:06Z", "v1.2.3-rc.4", "192.168.0.1:8080",
    "50% of $1,234.56 is €617.28 or £520 or ¥90000", "a1b2c3", "abc123def456", "1a 2b 3c", "007 0042 000",
    "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "৩৪৫ ๑๒๓ ༡༢༣", "x² + y³ = z⁴ ₀₁₂", "½ ⅓ ¼ ⅞ ↉", "ⅠⅡⅢ ⅳ ↀ", "①②③ ⑴⑵ ⒈⒉ ⓪",
    "一二三四五六七八九十百千万", "１２３４５ ＡＢＣ ａｂｃ", "𝟎𝟏𝟐 𝟘𝟙𝟚", "12三45", "12²3", "٣.١٤ 1٢3", "Ⅷ8八", "1 2 3 4 5", "1  22   333    4444",
    "99999999999999999999999999999999", "10:30am-11:45pm", "#42 №7 §3.1", "CO₂ H₂O E=mc²", "1st 2nd 3rd 4th", "2'5\"",
]

SPACES = [
    "\n", "\n\n", "\n\n\n", "\n\n\n\n\n\n\n", "\r\n", "\r\n\r\n", "\r", "\t", "\t\t", "\t\t\t\t", " \n", "\n ", " \n ", "  \n  ", "   \n\n   x",
    "a\nb", "a\n\nb", "a \n b", "a  \n\n  b", "a\tb", "a\t\tb", "a \t b", "\ta", "a\t", "a ", "a  ", "a   ", " a", "  a", "   a", "    a", "     a",
    "a b", "a  b", "a   b", "a    b", "a     b", "line one\nline two\r\nline three\rline four\n", "trailing newline\n", "trailing spaces   ",
    "\n  indented", "\n\tindented\n\t\tmore\n", "x\u00a0y\u2003z\u3000w", "\u00a0\u00a0 a", "\u2028line\u2029para", "\u200bzero\u200bwidth\u2060\ufeff", "\u0085next\u0085line",
    "\u1680ogham\u180e\u205f", "word\u3000\u3000word", " \u00a0 ", "\v\f", "a\vb\fc", "   \t\n\t   \n", "!\n", "!\n\n", "?! \n\n next", ")\n(", ". . .\n. . .", "123\n456", "123 \n 456",
    " ! ", "  !!  ", " 1", "  1", "   12", "\n1", "\n1234", "'\n's", " 's", "\n's",
]

CONTRACTIONS = [
    "I'm you're we'll they'd it's DON'T CAN'T I'VE", "'s 't 're 've 'm 'll 'd", "'S 'T 'RE 'VE 'M 'LL 'D", "o'clock rock'n'roll 'tis 'twas", "it’s don’t we’ll I’m", "x's1 's's 'sand 'table 'reason 'very 'mother 'llama 'dog",
    "'rE 'Ve 'lL", "'ſ 'K", "she'd've could'nt y'all'd've", "dogs' cats's", "''s '''ll", " 'm 'em", "a'b'c'd'e", "l'ami d'un j'ai", "1's 2'll 3'd",
]

CODE = [
    "if (x == 1) { return y[2]; } // comment", "for(int i=0;i<10;++i){sum+=a[i]*b[i];}", "def f(x: int) -> str:\n    return f\"{x!r:>10}\"\n", "#include <stdio.h>\nint main(void) {\n\tprintf(\"%d\\n\", 42);\n\treturn 0;\n}\n",
    "SELECT * FROM t WHERE a <> 'b' AND c >= 10;", "const f = async ({ a, b = 2, ...rest }) => await g`x${a ?? b}`;", "fn main() { println!(\"{:?}\", vec![1u8, 2, 3]); }", "<div class=\"a b\" id='c'>&nbsp;&lt;x&gt;</div><!-- c -->", "{\"key\": [1, 2.5, null, true], \"n\\u00e9\": {\"a\": \"b\"}}",
    "key: value\n  - item1\n  - item2: {a: 1}\n", "| a | b |\n|---|:-:|\n| 1 | 2 |", "# Title\n\n* item **bold** _it_ `code`\n\n```py\nx = 1\n```\n", "$ curl -sSL 'https://example.org/a?b=c&d=%20e#f' | sh -x", "git commit -m \"Fix: #123\" && git push --force-with-lease", "C:\\Users\\name\\file.txt /usr/local/bin/../lib ~/x",
    "std::vector<std::pair<int,int>>&& v", "a->b.c::d(e)[f]{g}", "!@#$%^&*()_+-=[]{}|;':\",./<>?`~", "==== ---- **** //// \\\\\\\\ ....", "/* multi\n * line\n */", "\\begin{equation} \\frac{a}{b} \\neq \\sum_{i=0}^{n} x_i \\end{equation}", "regex: ^(?:[a-z]+|\\d{1,3})(?=\\s)$", "a=b;c=d;;e", "x+=1;y-=2;z*=3;w/=4;v%=5;u**=6;t//=7", "λx.x ∀x∈ℝ: ∃y≥x ∧ ¬(y<0) ⇒ ∫₀^∞ e^{-x²}dx = √π/2",
    "        eight spaces\n    four spaces\n\ttab\n", "}\n\n\n}\n", "\"\"\"doc\nstring\"\"\"", "print('hi')#c", "0xDEADBEEF&0xff<<3", "i++ + ++i", "%s %d %5.2f %%", "user@example.org", "https://www.example.com/path/to/page?query=string&x=1#fragment", "ftp://user:pa55@host.example:21/%7Efile", "www.example.net, mailto:a.b+c@d-e.co.uk", "::1 fe80::1%eth0 2001:db8::/32",
]

CASES = [
    "camelCase", "iPhone iOS macOS eBay", "XMLHttpRequest HTTPServer parseJSON toURL", "McDonald O'Neil MacLeod's", "aB Ab AB ab aBc ABc aBC ABC abC", "HELLOworld helloWORLD", "дОМ ДОм домДОМ ДомДом", "ΑΒγδ αΒΓδ", "ÀÉîô ÉTÉ été ÉtÉ", "ǅungla ǆǅǄ aǅB",
    "中文ABCabc中Abc文", "x2Y Y2x A1b2C3", "ºA ªb Aª Bº", "a\u0301B\u0301c A\u0301b\u0301C", "ﬁX Xﬁ", "Ꭳꭳ ꭳᎣ", "ᲐᲑგდ გᲓ", "𐐔𐐯𐐔 𐐯𐐔𐐯", "Ⓐⓐ ⓐⒷ", "ＡＢｃｄ ｃＤ", "ʰA Aʰb", "theQuickBrownFox_JumpsOver", "getHTTPResponseCode2XXOrNull",
    "file/path/\n/more", "a/b//c///\n\n/", "!/\n/ ?//\r\n", "end.\r\n/\n.", "x /\n/ y", "#include/\n", "ſX ıI İi", "NASA's I'M I'Ll aB'S Ab'Ve",
]

EMOJI = [
    "😀", "😀😃😄", "hi 😀 there", "👍🏽👩🏿‍🚀", "👨‍👩‍👧‍👦 family", "🏳️‍🌈🏴‍☠️", "🇩🇪🇫🇷🇯🇵", "1️⃣2️⃣#️⃣", "❤️ ❤ ♥", "☃☀☁ ✓✗ ★☆", "🤷🏻‍♀️ idk", "a😀b😀c", "🫠🪿🫨", "👁️‍🗨️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "→←↑↓ ⇒⇔", "░▒▓█▄▀", "┌─┬─┐│ │ │└─┴─┘", "♪♫ ♠♥♦♣ ⚀⚁", "©®™ ¶§† ‡ ‰", "🀄🂡🎲", "( ͡° ͜ʖ ͡°) ¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻",
]

MARKS = [
    "e\u0301 vs é", "a\u0300\u0301\u0302\u0303\u0304", "Z\u0351\u036b\u0343\u036aa\u0302\u0307l\u0334g\u0321o\u031b", "n\u0303 \u0303n \u0303", "\u0301leading mark", "क\u094dष ि", "ก\u0e31\u0e49น", "\u0651\u064b", "x\u20d7 y\u20dd", "1\u0301 2\u20e3", " \u0301", "\n\u0301", "!\u0301?", "\u05b0\u05b1", "\u0e33 \u0eb3", "\u302a\u302b", "ᄒ\u1161\u11ab 한", "\u09be\u09c7",
]

ODD = [
    "\x00", "a\x00b", "\x01\x02\x03", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x81\x9f", "a\u00adb", "\u200d\u200c", "\u200e\u200frtl\u202e\u202c", "\ue000\uf8ff", "\U000f0000\U0010fffd", "\ufffd\ufffe\uffff", "\ufdd0\ufdef", "\u0378\u0379\u0380", "\u2fe0\u2fff", "\U0001ffff\U0002fffe", "\U000e0001\U000e0041", "\U000e0100x\ufe0f", "\U00030000\U00031350", "\U0003fffd", "\u2065\ufff0", "\u061c\u2066x\u2069", "\U0001fae9\U0001fadf", "\u1c89\u1c8a \ua7cb", "\U00010d40\U00011bf0", "\u0560\u0588", "\u19da\u1369", "\u3007\u3021\u5341", "\u00b2\u00b3\u00b9\u00bc", "\u2160\u216b\u2180", "\u200b", "\ufeffbom", "\u115f\u1160\u3164\uffa0", "\u0149\u01c5\u02b0\u02c6\u02e5", "ªº µ Ω Å K", "\u2e80\u2f00\u3003\u3005\u3006", "\u30fb\u30fc\uff70\uff9e", "\u0f0b\u104a\u1361\u16eb", "\u2045x\u2046 \u2329y\u232a", "\u203f\u2040\ufe33 _", "\u2044\u2052 \u207a\u208a", "\u02c2\u02d2 ^` ¨¯´¸", "\u0600\u06dd\u070f", "\u0488\u0489\u20dd\ua670", "\u0903\u093e\u0949", "\u2010\u2011\u2012\u2212\u301c\u30a0",
]

SPECIALS = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "text<|endoftext|>text", " <|endoftext|> ", "<|im_start|><|im_start|>", "<|im_start |>", "<|im_start", "<im_start|>", "<bos>Hello<eos>", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<s>[INST] hi [/INST] hello </s>", "<s></s><unk><pad>", "<unk>", "</s> </s>", "  <s>  a  </s>  b", "<0x41><0x0A>", "<0x00>", "<unused0><unused98>", "<|eot_id|><|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n", "<tool>call</tool>", "<tool> call </tool> ", "a<tool>b", "a <tool> b", "a  <tool>  b", "\n<tool>\n", "<tool><tool>", "<tool", "<<tool>>", "<repo_name>x<file_sep>y", "<jupyter_start>", "[toxicity=0]", "<|system|>\nYou<|end|>\n<|user|>\nHi<|end|> \n <|assistant|>", "<mask><2mass>[@BOS@]", "<table><tr><td>x</td></tr></table>", "<h1>t</h1><blockquote><i>", "\t\t<code>\n\n\n\n</code>", "▁already▁escaped", "a▁b ▁ c", "▁", "▁▁▁", "Ġbyte Ċ level Ā", "<|tool_call|>{}<|/tool_call|>", "<|im_end|>\n\n<|im_end|>  <|im_end|>", "<think>\n\n</think>\n\n",
]

LONG = [
    "a" * 200, "ab" * 150, "=" * 300, " " * 130 + "x", "\n" * 65 + "x", "-" * 77 + "\n" + "-" * 77, "0" * 333, "ha" * 100 + "!", "word " * 120, "é" * 90, "漢" * 80, "字 " * 60, "😀" * 50, "x" * 64 + "😀" + "y" * 64, "The same line.\n" * 25, "aaaaabbbbbaaaaabbbbb" * 12, "\t" * 50 + "x", "!?" * 90, "ᚠᛇᚻ᛫" * 25, ("lorem ipsum dolor sit amet " * 12).strip(), "a.b." * 80, "'s" * 60, "1 " * 100, "\u0301" * 60, "АБВ" * 50,
]

# Ranges that the generated strings draw single characters from.
RANGES = [
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x13A0, 0x13FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2C00, 0x2DFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xA640, 0xA7FF), (0xAB30, 0xABBF),
    (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE00, 0xFFEF), (0x10000, 0x103FF), (0x10400, 0x104FF), (0x11000, 0x114FF), (0x16E40, 0x16F9F), (0x1D400, 0x1D7FF), (0x1E900, 0x1E95F), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF),
]


def make_strings() -> list[str]:
    """The written strings, then seeded mixtures up to STRING_COUNT; no string occurs twice."""
    written = PROSE + SCRIPTS + DIGITS + SPACES + CONTRACTIONS + CASES + CODE + EMOJI + MARKS + ODD + SPECIALS + LONG
    strings = list(dict.fromkeys(written))
    rng = random.Random(20261130)
    short = [s for s in strings if 0 < len(s) <= 24]
    while len(strings) < STRING_COUNT:
        if rng.random() < 0.5:
            parts = [rng.choice(short) for _ in range(rng.randint(2, 6))]
            candidate = rng.choice(["", " ", "\n", "  "]).join(parts)
        else:
            candidate = random_characters(rng)
        if candidate not in strings:
            strings.append(candidate)
    for s in strings:
        s.encode("utf-8")
    return strings[:STRING_COUNT]


def random_characters(rng: random.Random) -> str:
    """10 to 40 characters, in runs of one Unicode range, joined by letters, digits and spaces."""
    out = []
    for _ in range(rng.randint(3, 8)):
        low, high = rng.choice(RANGES)
        out += [chr(rng.randint(low, high)) for _ in range(rng.randint(1, 5))]
        out.append(rng.choice(["", "", " ", "  ", "\n", "x", "7", "'s", "."]))
    return "".join(c for c in out if not (len(c) == 1 and 0xD800 <= ord(c) <= 0xDFFF))
