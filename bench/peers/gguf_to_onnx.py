"""Makes ONNX files of a llama-architecture GGUF, laid out as a Hub repository that Transformers.js loads.

  python gguf_to_onnx.py MODEL.gguf OUTPUT_FOLDER [--dtypes q8 fp32]

fp32 (onnx/model.onnx) has the GGUF's weights exactly; q8 (onnx/model_quantized.onnx) is what Transformers.js
takes for wasm by default: ONNX Runtime's dynamic int8, made as its own quantization script does. The graph
has the shape that onnxruntime-genai's model builder gives: packed QKV, GroupQueryAttention with do_rotary,
SkipSimplifiedLayerNormalization. The 4-bit types are left out: ONNX Runtime's wasm has no kernel for them
and is ten times slower there. Needs numpy, onnx, gguf and onnxruntime.
"""

import argparse
import tempfile
from pathlib import Path

import gguf
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_configs import write_configs

CONTRIB = "com.microsoft"
OPSET = 21
IR_VERSION = 10
FILES = {"fp32": "model.onnx", "q8": "model_quantized.onnx"}


class Gguf:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        architecture = self.meta("general.architecture")
        if architecture != "llama":
            raise SystemExit(f"Only the architecture llama is handled, not ({architecture}).")
        self.layers = self.of_llama("block_count")
        self.hidden = self.of_llama("embedding_length")
        self.ffn = self.of_llama("feed_forward_length")
        self.heads = self.of_llama("attention.head_count")
        self.kv_heads = self.of_llama("attention.head_count_kv")
        self.head_dim = self.of_llama("rope.dimension_count")
        self.theta = float(self.of_llama("rope.freq_base"))
        self.eps = float(np.float32(self.of_llama("attention.layer_norm_rms_epsilon")))
        self.context = self.of_llama("context_length")
        self.vocab = len(self.meta("tokenizer.ggml.tokens"))
        self.tied = "output.weight" not in self.tensors

    def meta(self, key):
        field = self.reader.fields.get(key)
        return None if field is None else field.contents()

    def of_llama(self, key):
        return self.meta(f"llama.{key}")

    def dense(self, name):
        """The tensor as float32, in the row order of the Hugging Face checkpoint."""
        tensor = self.tensors[name]
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weights = weights.reshape([int(size) for size in reversed(tensor.shape)])
        if name.endswith("attn_q.weight"):
            return unpermute(weights, self.heads)
        if name.endswith("attn_k.weight"):
            return unpermute(weights, self.kv_heads)
        return weights


def unpermute(weights, heads):
    """GGUF has llama's Q and K rows in the order for rotating adjacent pairs; the graph rotates halves
    (rotary_interleaved=0), as the checkpoint does."""
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


class Graph:
    """Nodes and initializers in order; `hidden` is the name of the residual stream's value."""

    def __init__(self, model):
        self.g = model
        self.nodes, self.inits = [], []
        self.hidden = ""

    def const(self, name, array):
        self.inits.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def integers(self, name, values):
        return self.const(f"/model/constants/INT64/{name}", np.array(values, np.int64))

    def node(self, op, inputs, name, outputs=None, domain="", **attributes):
        outputs = outputs or [f"{name}/output_0"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))
        return outputs[0]

    def linear(self, x, names, name):
        weights = np.concatenate([self.g.dense(one) for one in names]).T
        return self.node("MatMul", [x, self.const(f"{name[1:].replace('/', '.')}.weight", weights)], name)

    def norm(self, where, tensor, skip, is_final=False):
        """Adds `skip` to the residual stream first, if there is one."""
        weight = self.const(f"{where[1:].replace('/', '.')}.weight", self.g.dense(tensor))
        if skip is None:
            return self.node("SimplifiedLayerNormalization", [self.hidden, weight], f"{where}/LayerNorm",
                             axis=-1, epsilon=self.g.eps, stash_type=1)
        outputs = [f"{where}/output_0"] + ([] if is_final else ["", "", f"{where}/output_3"])
        normed = self.node("SkipSimplifiedLayerNormalization", [self.hidden, skip, weight],
                           f"{where}/SkipLayerNorm", outputs, CONTRIB, epsilon=self.g.eps)
        if not is_final:
            self.hidden = outputs[3]
        return normed

    def lengths(self):
        """What GroupQueryAttention wants to know of the sequence, and its tables of angles."""
        base = "/model/attn_mask_reformat"
        one = self.integers("[1]", [1])
        total = self.node("ReduceSum", ["attention_mask", one], f"{base}/ReduceSum", keepdims=0)
        last = self.node("Sub", [total, one], f"{base}/Sub")
        seqlens = self.node("Cast", [last], f"{base}/Sub/Cast", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], f"{base}/Shape")
        length = self.node("Gather", [shape, self.integers("1", 1)], f"{base}/Gather", axis=0)
        total_length = self.node("Cast", [length], f"{base}/Gather/Cast", to=TensorProto.INT32)
        inverse = 1.0 / self.g.theta ** (np.arange(0, self.g.head_dim, 2, dtype=np.float64) / self.g.head_dim)
        angles = np.outer(np.arange(self.g.context), inverse)
        cos = self.const("cos_cache", np.cos(angles).astype(np.float32))
        sin = self.const("sin_cache", np.sin(angles).astype(np.float32))
        return [seqlens, total_length, cos, sin]

    def attention(self, layer, x, lengths):
        block, base = f"blk.{layer}", f"/model/layers.{layer}/attn"
        qkv = self.linear(x, [f"{block}.attn_{part}.weight" for part in "qkv"], f"{base}/qkv_proj/MatMul")
        name = f"{base}/GroupQueryAttention"
        inputs = [qkv, "", "", f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", *lengths]
        outputs = [f"{name}/output_0", f"present.{layer}.key", f"present.{layer}.value"]
        mixed = self.node("GroupQueryAttention", inputs, name, outputs, CONTRIB, num_heads=self.g.heads,
                          kv_num_heads=self.g.kv_heads, scale=self.g.head_dim**-0.5, local_window_size=-1,
                          softcap=0.0, do_rotary=1, rotary_interleaved=0)
        return self.linear(mixed, [f"{block}.attn_output.weight"], f"{base}/o_proj/MatMul")

    def feed_forward(self, layer, x):
        block, base = f"blk.{layer}", f"/model/layers.{layer}/mlp"
        gate = self.linear(x, [f"{block}.ffn_gate.weight"], f"{base}/gate_proj/MatMul")
        up = self.linear(x, [f"{block}.ffn_up.weight"], f"{base}/up_proj/MatMul")
        sigmoid = self.node("Sigmoid", [gate], f"{base}/act_fn/Sigmoid")
        active = self.node("Mul", [gate, sigmoid], f"{base}/act_fn/Mul")
        product = self.node("Mul", [active, up], f"{base}/Mul")
        return self.linear(product, [f"{block}.ffn_down.weight"], f"{base}/down_proj/MatMul")

    def head(self, x):
        """Transformers.js feeds num_logits_to_keep when the graph asks for it: 1 while generating, so that
        the head runs on the prompt's last token only; 0 keeps all."""
        one = "/model/constants/INT64/[1]"
        keep = self.node("Reshape", ["num_logits_to_keep", one], "/lm_head/keep/Reshape")
        start = self.node("Neg", [keep], "/lm_head/keep/Neg")
        end = self.integers("MAX", [np.iinfo(np.int64).max])
        kept = self.node("Slice", [x, start, end, one], "/lm_head/keep/Slice")
        table = "token_embd.weight" if self.g.tied else "output.weight"
        weights = self.const("lm_head.MatMul.weight", self.g.dense(table).T)
        self.node("MatMul", [kept, weights], "/lm_head/MatMul", ["logits"])

    def build(self):
        lengths = self.lengths()
        table = self.const("model.embed_tokens.weight", self.g.dense("token_embd.weight"))
        self.hidden = self.node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather")
        skip = None
        for layer in range(self.g.layers):
            base = f"/model/layers.{layer}"
            x = self.norm(f"{base}/input_layernorm", f"blk.{layer}.attn_norm.weight", skip)
            skip = self.attention(layer, x, lengths)
            x = self.norm(f"{base}/post_attention_layernorm", f"blk.{layer}.ffn_norm.weight", skip)
            skip = self.feed_forward(layer, x)
        self.head(self.norm("/model/final_norm", "output_norm.weight", skip, is_final=True))
        return self.model()

    def model(self):
        value = helper.make_tensor_value_info

        def cache(name, length):
            sizes = ["batch_size", self.g.kv_heads, length, self.g.head_dim]
            return value(name, TensorProto.FLOAT, sizes)

        inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
                  value("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
                  value("num_logits_to_keep", TensorProto.INT64, [])]
        outputs = [value("logits", TensorProto.FLOAT, ["batch_size", "num_logits", self.g.vocab])]
        for layer in range(self.g.layers):
            for part in ("key", "value"):
                inputs.append(cache(f"past_key_values.{layer}.{part}", "past_sequence_length"))
                outputs.append(cache(f"present.{layer}.{part}", "total_sequence_length"))
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, self.inits)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="gguf_to_onnx")
        model.ir_version = IR_VERSION
        return model


def write_dynamic_int8(model, path):
    """As Transformers.js's own script does for q8: unsigned weights (its choice for graphs with
    GroupQueryAttention), one scale a tensor. The default type is named, since ONNX cannot infer shapes
    through the contributed operators."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
    from onnxruntime.quantization.quant_utils import QuantizationMode
    from onnxruntime.quantization.registry import IntegerOpsRegistry

    options = {"EnableSubgraph": True, "MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT}
    quantizer = ONNXQuantizer(model, False, False, QuantizationMode.IntegerOps, False, QuantType.QUInt8,
                              QuantType.QUInt8, None, [], [], set(IntegerOpsRegistry), options)
    quantizer.quantize_model()
    onnx.save(quantizer.model.model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--dtypes", nargs="+", choices=list(FILES), default=list(FILES))
    options = parser.parse_args()
    source = Gguf(options.gguf)
    # Renamed into place when complete.
    with tempfile.TemporaryDirectory(dir=options.output.parent) as folder:
        part = Path(folder) / "model"
        (part / "onnx").mkdir(parents=True)
        write_configs(source, part)
        for dtype in options.dtypes:
            path = part / "onnx" / FILES[dtype]
            model = Graph(source).build()
            if dtype == "q8":
                write_dynamic_int8(model, path)
            else:
                onnx.save(model, path)
            print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)
        part.rename(options.output)


if __name__ == "__main__":
    main()
