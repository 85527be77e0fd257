"""Writes a LLaVA of two layers that sees pictures of 56x56 pixels as 16 tokens; its weights are made up at load time.

Usage: pictures.py TINY DIR, where TINY is what model.py wrote: its tokenizer gets one more token, <image>.
"""
import json
import os
import sys

from transformers import CLIPImageProcessor, LlavaProcessor, PreTrainedTokenizerFast

tiny, out = sys.argv[1:]
fast = PreTrainedTokenizerFast(
    tokenizer_file=os.path.join(tiny, "tokenizer.json"),
    eos_token="<|endoftext|>",
    pad_token="<|endoftext|>",
    additional_special_tokens=["<|user|>", "<|assistant|>", "<image>"],
    model_max_length=2048,
)
template = (
    "{% for m in messages %}<|{{m['role']}}|>{% if m['content'] is string %}{{m['content']}}{% else %}"
    "{% for p in m['content'] %}{% if p['type'] == 'image' %}<image>{% else %}{{p['text']}}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}<|assistant|>"
)
LlavaProcessor(
    CLIPImageProcessor(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}),
    fast,
    patch_size=14,
    vision_feature_select_strategy="default",
    image_token="<image>",
    num_additional_image_tokens=1,
    chat_template=template,
).save_pretrained(out)
image = fast.convert_tokens_to_ids("<image>")
with open(os.path.join(tiny, "config.json")) as f:
    text = json.load(f)
text["vocab_size"] = image + 8
config = {
    "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "dtype": "float32",
    "image_token_index": image, "image_seq_length": 16, "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default", "text_config": text,
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 56, "patch_size": 14, "projection_dim": 64,
    },
}
with open(os.path.join(out, "config.json"), "w") as f:
    json.dump(config, f, indent=1)
