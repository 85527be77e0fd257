"""What vLLM's own client would send, and its tokenizer, over HTTP.

POST /samples takes the flags of "vllm bench serve" and returns the requests that it has made when
it begins to measure. /tokenize and /detokenize answer as a vLLM server does.
"""
import asyncio
import contextlib
import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vllm.benchmarks import serve
from vllm.tokenizers import get_tokenizer
from vllm.utils.argparse_utils import FlexibleArgumentParser

model = sys.argv[1]
tokenizer = get_tokenizer(model)
parser = FlexibleArgumentParser()
serve.add_cli_args(parser)
lock = threading.Lock()
made = []


async def benchmark(*_, **kwargs):
    made[:] = [
        {
            "prompt": r.prompt,
            "output": r.expected_output_len,
            "input": r.prompt_len,
            "messages": r.chat_messages,
            "pictures": r.multi_modal_data,
            "extra": r.request_overrides,
            "due": r.timestamp,
            "ignore_eos": kwargs["ignore_eos"],
        }
        for r in kwargs["input_requests"]
    ]
    raise KeyboardInterrupt


async def as_they_are(_url, _model, prompts, _ssl):
    return prompts


serve.benchmark = benchmark
serve._align_prompts_to_server_tokenizer = as_they_are
serve.get_tokenizer = lambda *_, **__: tokenizer


def samples(args):
    with lock, contextlib.redirect_stdout(io.StringIO()):
        made.clear()
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve.main_async(parser.parse_args(args)))
        return list(made)


def answer(path, body):
    if path == "/samples":
        return samples(body)
    if path == "/detokenize":
        return {"prompt": tokenizer.decode(body["tokens"])}
    if path == "/tokenize":
        text = body.get("prompt")
        if "messages" in body:
            text = tokenizer.apply_chat_template(
                body["messages"],
                add_generation_prompt=body["add_generation_prompt"],
                tokenize=False,
                **body.get("chat_template_kwargs", {}),
            )
        ids = tokenizer.encode(text, add_special_tokens=body.get("add_special_tokens", True))
        return {"tokens": ids, "count": len(ids)}
    raise ValueError(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write for an answer

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            code, out = 200, answer(self.path, body)
        except (Exception, SystemExit) as e:
            code, out = 400, {"error": f"{type(e).__name__}: {e}"}
        raw = json.dumps(out).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on", server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
