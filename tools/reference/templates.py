"""Writes tests/data/templates.json: chat templates, messages, and what Jinja2 makes of them.

Jinja2 is set up as Transformers does for chat templates (sandbox, trim_blocks, lstrip_blocks, loop
controls, its own tojson). Left out are two differences of the web's Jinja that no known template
meets: it prints "true" for Python's "True", and counts text in UTF-16 units. Needs jinja2 3.1.6; with --model FILE also gguf, to take SmolLM2's own
template from its file. Run from the root of the repository.
"""

import argparse
import json
from pathlib import Path

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUTPUT = Path("tests/data/templates.json")

CHATS = {
    "one": [{"role": "user", "content": "Why is the sky blue?"}],
    "system": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi \u00e9\u6f22 \U0001f600 <b>&\"'"},
    ],
    "turns": [
        {"role": "user", "content": "  One  "},
        {"role": "assistant", "content": "Two\n"},
        {"role": "user", "content": "Three"},
    ],
}

TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "turns": "{{ bos_token }}\n{%- for m in messages %}\n"
    "    {%- set role = 'model' if m.role == 'assistant' else m.role %}\n"
    "    {%- if m.role == 'system' %}\n{% continue %}\n    {%- endif %}\n"
    "<start_of_turn>{{ role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}\n"
    "{%- if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "namespace": "{%- set ns = namespace(count=0, last='') %}\n{%- for m in messages %}\n"
    "{%- if loop.first %}[{{ loop.length }}]{% endif %}\n"
    "{%- set ns.count = ns.count + m.role | length %}{% set ns.last = m.role %}\n"
    "{%- if not loop.last %}{{ loop.index0 }}:{{ m.role | upper }},{% endif %}\n{%- endfor %}"
    " {{ ns.count }} {{ ns.last }}{{ ' none' if tools is none }}{{ ' set' if documents is defined }}",
    "macro": "{% macro say(m, mark='*') %}{{ mark }}{{ m.content.strip() }}{{ mark }}{% endmacro %}"
    "{% for m in messages %}{{ say(m) if loop.index % 2 == 1 else say(m, mark='#') }}\n{% endfor %}",
    "json": "{{ messages | tojson }}\n{{ {'a': [1, 2.5, true, none], 'b': 'x'} | tojson }}"
    "\n{{ [3, 1, 2] | sort | join('-') }} {{ range(2, 9, 3) | list }}",
    "trim": "  {% if true %}\n  kept\n  {% endif %}\n{# gone #}\n  end \n\n",
    "slices": "{{ messages[-1].content }}|{{ messages[1:] | length }}|{{ eos_token }}"
    "|{{ 'yes' if messages[0]['role'] in ['user', 'system'] }}|{{ 'x' ~ 7 // 2 ~ 7 % 4 }}"
    "|{{ messages | map(attribute='role') | join(',') }}"
    "|{{ (messages | selectattr('role', 'equalto', 'user') | first).content }}",
}


def render(template, messages):
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template).render(
        messages=messages,
        tools=None,
        documents=None,
        bos_token="<bos>",
        eos_token="<eos>",
        add_generation_prompt=True,
    )


def model_template(path):
    from gguf import GGUFReader

    return GGUFReader(path).fields["tokenizer.chat_template"].contents()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a GGUF whose template is taken too, as smollm2")
    options = parser.parse_args()
    templates = dict(TEMPLATES)
    if options.model:
        templates["smollm2"] = model_template(options.model)
    cases = [
        {
            "name": f"{name}/{chat}",
            "template": template,
            "messages": messages,
            "text": render(template, messages),
        }
        for name, template in templates.items()
        for chat, messages in CHATS.items()
    ]
    text = json.dumps({"bos_token": "<bos>", "eos_token": "<eos>", "cases": cases}, indent=1)
    OUTPUT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
