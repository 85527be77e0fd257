// Package sim is an inference engine that computes nothing: it answers as vLLM does, after latencies that are known
// in advance, and fails when told to. It stands in for `vllm serve`, `vllm bench serve`, `ray`, vLLM's GSM8K script and SGLang's programs,
// so that a plan, its batch script, readiness checks, load client, parsers and record can be rehearsed without a GPU and
// their numbers checked against the truth.
//
// It is not a model of performance: nothing it reports says anything about a GPU. Whatever it writes is labelled
// simulated: `/version` answers "profllm-sim", log lines carry "profllm sim", evaluation results "simulated": true.
//
// What it imitates is compared, field by field, with recorded answers of a real vLLM (testdata/vllm-0.32.0).
//
// # Knobs
//
// All by environment, all optional:
//
//	PROFLLM_SIM_TTFT      50ms   admission to first token
//	PROFLLM_SIM_ITL       20ms   between two tokens of one request
//	PROFLLM_SIM_JITTER    0      0-1, share of TTFT and ITL by which a token may be early or late
//	PROFLLM_SIM_SEED      1      changes answers, jitter and which requests fail
//	PROFLLM_SIM_STARTUP   500ms  from start to the port being open
//	PROFLLM_SIM_ACCURACY  0.75   0-1, share of arithmetic questions answered right
//	PROFLLM_SIM_TOKENS    words  "words": a piece is up to three letters; "bytes": one token per byte
//	PROFLLM_SIM_FLAGS            "any": take every flag of vllm serve, also one that vLLM 0.32.0 refuses
//	PROFLLM_SIM_RAY             path of a real ray to run instead of the simulated one
//	PROFLLM_SIM_GPUS            how many GPUs each node has; without it no GPU is looked at
//	PROFLLM_SIM_FAULTS           see below
//	PROFLLM_NODE_ADDR            the address of this simulated node; replaces 0.0.0.0, so that several nodes fit on one machine
//	PROFLLM_ROLE                 which role this process plays; set by the job
//
// Token i of a request admitted at t is due at t + TTFT + i*ITL, whatever happened to the tokens before it. At most
// --max-num-seqs requests are admitted at once; the others wait in order of arrival. A decode server that took over a
// prompt's KV cache needs ITL, not TTFT, for its first token.
//
// # Prefill and decode
//
// With --kv-transfer-config a server announces its engine id on VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT, and its answers to
// do_remote_decode carry kv_transfer_params. A server given such parameters connects to that side channel; only if the
// engine id found there is the one in the parameters does it count a transfer. Otherwise it counts a failed one and answers
// 500, as vLLM does; and as in vLLM, external_prefix_cache_hits grows in both cases, so it proves nothing by itself.
// No KV cache moves, and the side channel does not speak NIXL's protocol: real and simulated servers do not mix.
//
// # SGLang
//
// `python3 -m sglang.launch_server` is the same engine under SGLang's flags: /health, /v1, /get_model_info, /get_server_info
// and /flush_cache, no /generate and no /metrics. With --nnodes node 0 opens its port once every other rank has said its
// number at --dist-init-addr. A value behind an option that takes none is refused, as argparse does. The router is profllm's
// proxy, so prefill and decode are asked one after the other; prefill announces itself at --disaggregation-bootstrap-port.
// `python3 -m sglang.bench_serving` is profllm's load client over /v1/completions, its result under SGLang's keys, with
// "simulated": true; `python3 -m sglang.test.run_eval` knows --eval-name gsm8k.
//
// # Ray
//
// `ray start` keeps, per user and PROFLLM_NODE_ADDR, one small file in TMPDIR by which `ray status`, `ray stop` and the engine
// find the node's daemon. The registry is a TCP listener on the head's port and speaks to this package only.
//
// # Nsight Systems
//
// `nsys profile [options] COMMAND` runs the command and writes a report that holds no trace, only what was run and that it
// is simulated. On SIGTERM it ends the command with the same signal first. Other commands of nsys are not simulated.
//
// # GPUs
//
// `nvidia-smi` answers --query-gpu and --query-compute-apps, once or every so often with -lms, for as many GPUs as
// PROFLLM_SIM_GPUS says: at work 95 % of the time, at 400 W and 1980 MHz, whatever the engine does; one that is made idle
// draws 70 W at 345 MHz. Names, drivers and uuids say that they are simulated. Nobody's process is on them.
//
// # Faults
//
//	PROFLLM_SIM_FAULTS = group { ";" group }
//	group              = ( role | "*" ) ":" fault { "," fault }
//	fault              = name [ "=" value ]
//
//	die-at-start        exit before the port opens, after a traceback whose root cause is a lack of cache memory
//	die-after=2s        exit this long after becoming ready (client: after starting)
//	die-on-request=N    exit on the Nth generation request, unanswered
//	exit=3              exit code of the three above; 1 unless given
//	never-ready         stay alive, never open the port
//	hang                become ready, accept generation requests, never answer
//	fail=0.1            share of generation requests answered with status 500
//	bundle=4            tokens per streamed chunk
//	zero-tokens         answer at once with status 200 and no token
//	miscount=1.1        factor by which the engine counts other output tokens than it sends
//	abort=0.2           share of requests that the engine counts as aborted, although it answers them
//	preempt=0.05        share of requests for which a preemption is counted
//	corrupt=0.05        share of requests that are counted as corrupted; without it the counter is not there, as in vLLM
//	warm=0.2            share of every prompt that is found in the prefix cache, whatever was asked before
//	cold=8              the first so many requests wait ten times as long for their first token
//	slowing=2ms         each request waits that much longer for its first token than the one before
//	stall=10s@5s        from 5 s after the first request on no token goes out for 10 s
//	burst=8             tokens go out eight chunks at a time, each in a chunk of its own
//	freeze=5s@2s        the client stands still for 5 s, from 2 s after its first look at the clock on
//	step=-200ms@2s      the clock that the client reads is set by -200 ms, 2 s after its first look at it
//	pace=0.9            the client keeps this share of the rate it is asked for
//	restart-on-request=N  count from 0 again at the Nth generation request, as a server that somebody restarts does
//	root=MODEL          say that the model served is this one, under the same name
//	version=1.2         say that the engine is of this version
//	drop=0.1            share of generation requests that are read, held for TTFT and left unanswered, the connection closed
//	cut=0.1             share of streams whose connection is closed in the middle
//	error-event=0.1     share of streams that end with an error event, inside their status 200
//	error-usage=0.1     the same, the error beside choices and usage
//	garbage=0.1         share of streams of which one event is plain text
//	html=0.1            share of generation requests answered with status 200 and a web page
//	short=0.1           share of answers that end after a quarter of their tokens
//	usage=0.5           factor by which the client is told other completion tokens than it gets
//	finish=abort        the finish reason that the client is told
//	no-usage            no answer has a usage
//	no-done             streams end without [DONE]
//	no-params           prefill's answers carry no kv_transfer_params
//	recompute=0.1       share of KV transfers that fail and whose prompt is computed by decode, as kv_load_failure_policy=recompute does
//	use=3/0.5           GPU 3 is at work in 0.5 % of the time
//	clock=3/1700        the SM clock of GPU 3 is 1700 MHz
//	heat=3/0.1          in a tenth of the looks at it GPU 3 is slowed down by heat
//	skip=0.1            a tenth of the looks at the GPUs is left out
//	driver=HOST/1.2     the driver of that node is of this version
//
// A group applies where its role equals PROFLLM_ROLE; "*" is every server. The load client (`vllm bench serve`) obeys
// only groups whose role is "client", and of those die-at-start, die-after, hang, exit, freeze, step and pace; the simulated GPUs obey only groups
// whose role is "gpu", and of those the last five faults.
//
// # Flags
//
// `vllm serve MODEL [flags]` takes the model first or as --model, as profllm renders it. A token after a flag that does
// What the parser of vLLM 0.32.0 refuses is refused in its words, with exit code 2: names it does not know (the beginning
// of one is enough, as with argparse), too few or too many values, a word where a number is due, an unknown choice.
// PROFLLM_SIM_FLAGS=any takes every name and value, for engines of another release. Flags whose effect is not simulated are
// logged; what JSON holds is not looked at, but for --kv-transfer-config. --config is refused, because its file would be ignored.
// A model is never looked for, also where it is an absolute path: that lies in a container or on a node of a cluster, where
// no rehearsal can see it.
//
// # Tools
//
// The programs of nccl-tests, ucc_perftest and fio have stand-ins that do nothing and say so; `bash -c TEXT`, for text that
// was written for an image, has the text parsed and does not run it. Faults do not apply to them.
package sim
