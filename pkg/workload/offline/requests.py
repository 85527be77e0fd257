"""profllm requests: what each request of vLLM takes without a server.

`profllm job requests` runs this text. It takes every option of the engine, sends all prompts at
once, and writes the times of each request as columns of a JSON file. profllm makes the statistics,
so that those of several engines are of the requests of all.
"""

import contextlib
import json
import os
import random
import time

# Prompts of a run that names no others, in turn.
STOCK = (
    "Describe how a tide forms.",
    "List three uses of copper.",
    "Write a short letter to a librarian who found a lost book.",
    "Which steps does a compiler take between a source file and a program?",
    "Explain to a child why leaves change their colour in autumn.",
    "Compare trains and ships as carriers of grain.",
)
WARM_UP = "A first prompt, which nobody counts."

# Synthetic prompts leave out the ids below, among which are those of special meaning.
FIRST_ID, LAST_ID = 1000, 9999


def arguments():
    from vllm.engine.arg_utils import EngineArgs

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # releases before 0.12
        from vllm.utils import FlexibleArgumentParser

    p = FlexibleArgumentParser(prog="profllm job requests")
    p.add_argument("--num-prompts", type=int, default=50)
    p.add_argument("--dataset-path", help="a file in the form of ShareGPT")
    p.add_argument("--input-len", type=int, help="tokens of synthetic prompts")
    p.add_argument("--output-len", type=int, help="wins over --max-tokens")
    p.add_argument("--max-tokens", type=int, default=128)
    p.add_argument("--temperature", type=float, default=0.0)
    p.add_argument("--profile", action="store_true", help="open the engine's profiler around the requests")
    p.add_argument("--viztracer", help="file for the Python calls during the requests")
    p.add_argument("--output-json", required=True)
    EngineArgs.add_cli_args(p)
    args = p.parse_args()
    return args, EngineArgs.from_cli_args(args)


def synthetic(count, length, seed, vocabulary):
    """Prompts of random token ids: the same for the same seed, and no two alike."""
    draw = random.Random(seed)
    last = min(LAST_ID, vocabulary - 1)
    first = FIRST_ID if FIRST_ID < last else last // 2
    prompts, seen = [], set()
    while len(prompts) < count:
        ids = tuple(draw.randint(first, last) for _ in range(length))
        if ids not in seen or len(seen) >= (last - first + 1) ** min(length, 4):
            seen.add(ids)
            prompts.append({"prompt_token_ids": list(ids)})
    return prompts


def conversations(path, count):
    """The first human turn of each conversation, of which a file has enough."""
    with open(path, encoding="utf-8") as f:
        items = json.load(f)
    prompts = []
    for item in items:
        turns = item.get("conversations") or item.get("conversation") or []
        human = [t.get("value") for t in turns if t.get("from") in ("human", "user")]
        if human and human[0]:
            prompts.append(human[0])
    if len(prompts) < count:
        raise SystemExit(f"{path} has {len(prompts)} prompts of people, not {count}")
    return prompts


def fitting(prompts, count, answer, llm, limit):
    """The first prompts that fit the engine together with their answers."""
    tokenizer, kept, left_out = llm.get_tokenizer(), [], 0
    for prompt in prompts:
        if len(kept) == count:
            break
        if len(tokenizer.encode(prompt)) + answer <= limit:
            kept.append(prompt)
        else:
            left_out += 1
    print(f"Prompts left out: {left_out}, longer than {limit} tokens with their answers")
    if len(kept) < count:
        raise SystemExit(f"{len(kept)} prompts fit {limit} tokens with their answers, not {count}")
    return kept


def prompts_of(args, read, llm):
    """The warm-up prompt, all prompts, and whether answers go on behind an end of text."""
    config = llm.llm_engine.vllm_config.model_config
    if args.input_len:
        made = synthetic(args.num_prompts + 1, args.input_len, args.seed or 0, config.get_vocab_size())
        return made[-1], made[:-1], True
    if args.dataset_path:
        return WARM_UP, fitting(read, args.num_prompts, answer_of(args), llm, config.max_model_len), False
    return WARM_UP, [STOCK[i % len(STOCK)] for i in range(args.num_prompts)], False


def answer_of(args):
    """Tokens of an answer."""
    return args.output_len or args.max_tokens


def share(prompts, engines):
    """Those of this process's engine: every engine takes each engines-th."""
    if engines <= 1:
        return prompts
    each = int(os.environ["WORLD_SIZE"]) // engines
    return prompts[int(os.environ["RANK"]) // each :: engines]


@contextlib.contextmanager
def profiled(args, llm):
    """Profilers record the measured requests and nothing else."""
    with contextlib.ExitStack() as stack:
        if args.viztracer:
            from viztracer import VizTracer

            stack.enter_context(VizTracer(output_file=args.viztracer))
        if args.profile:
            llm.start_profile()
            stack.callback(llm.stop_profile)
        yield


def columns(outputs):
    """The times of all requests, s. A first token is counted from the scheduling of its request."""
    table = {k: [] for k in ("input_lens", "output_lens", "queue_times", "ttfts", "decode_times")}
    for o in outputs:
        m = o.metrics
        if m is None or not getattr(m, "first_token_ts", 0):
            raise SystemExit("this release of vLLM does not say when a request got its first token")
        table["input_lens"].append(len(o.prompt_token_ids))
        table["output_lens"].append(len(o.outputs[0].token_ids))
        table["queue_times"].append(m.scheduled_ts - m.queued_ts)
        table["ttfts"].append(m.first_token_ts - m.scheduled_ts)
        table["decode_times"].append(m.last_token_ts - m.first_token_ts)
    return table


def main():
    args, engine = arguments()
    if args.viztracer:  # else the engine would be a process that the tracer does not see
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    read = None
    if args.dataset_path and not args.input_len:  # what is wrong with it is said before the engine is loaded
        read = conversations(args.dataset_path, args.num_prompts)
    import vllm

    engine.disable_log_stats = False  # else requests have no times
    llm = vllm.LLM(**vars(engine))
    warm_up, prompts, ignore_eos = prompts_of(args, read, llm)
    params = vllm.SamplingParams(
        temperature=args.temperature, max_tokens=answer_of(args), ignore_eos=ignore_eos)
    own = share(prompts, args.data_parallel_size)
    llm.generate([warm_up], params, use_tqdm=False)
    with profiled(args, llm):
        begun = time.perf_counter()
        outputs = llm.generate(own, params, use_tqdm=False)
        elapsed = time.perf_counter() - begun
    doc = {"model_id": args.model, "vllm_version": vllm.__version__, "elapsed_time": elapsed,
           "num_requests": len(outputs), "ttft_from": "scheduled", **columns(outputs)}
    with open(args.output_json, "w", encoding="utf-8") as f:
        json.dump(doc, f)
    print(f"Requests: {len(outputs)} in {elapsed:.3f} s")

    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and args.data_parallel_size > 1:
        dist.barrier()  # an engine that is done must not end the group of the others


if __name__ == "__main__":
    main()
