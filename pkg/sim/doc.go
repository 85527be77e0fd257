// Package sim is an inference engine that computes nothing: it answers as vLLM does, after
// latencies that are known in advance, and fails when told to. It stands in for `vllm serve`,
// `vllm bench serve`, `ray`, vLLM's GSM8K script, SGLang's programs, NVIDIA Dynamo's frontend and
// workers, and AIPerf, so that a plan, its batch script, readiness checks, load client, parsers and record can be rehearsed without a
// GPU and their numbers checked against the truth.
//
// It is not a model of performance: nothing it reports says anything about a GPU. Whatever it
// writes is labelled simulated: `/version` answers "profllm-sim", log lines carry "profllm
// sim", evaluation results "simulated": true.
//
// What it imitates is compared, field by field, with recorded answers of a real vLLM
// (testdata/vllm-0.32.0).
//
// # Knobs
//
// All are variables of the environment, and all are optional: [knobs.Knobs] lists them, and
// docs/reference/planted-faults.md is that list as a page. Three more are set by profllm:
//
//	PROFLLM_SIM_SPEED  all times of the simulation are divided by it, see [knobs.Speed]
//	PROFLLM_NODE_ADDR  the address of this simulated node; replaces 0.0.0.0, so that several nodes fit on one machine
//	PROFLLM_ROLE       which role this process plays; set by the job
//
// Token i of a request admitted at t is due at t + TTFT + i*ITL, whatever happened to the
// tokens before it. At most
// --max-num-seqs requests are admitted at once; the others wait in order of arrival. A decode server that took over a
// prompt's KV cache needs ITL, not TTFT, for its first token.
//
// # Prefill and decode
//
// With --kv-transfer-config a server announces its engine id on VLLM_NIXL_SIDE_CHANNEL_HOST and
// _PORT, and its answers to do_remote_decode carry kv_transfer_params. A server given such
// parameters connects to that side channel; only if the engine id found there is the one in the
// parameters does it count a transfer. Otherwise it counts a failed one and answers
// 500, as vLLM does; and as in vLLM, external_prefix_cache_hits grows in both cases, so it proves nothing by itself.
// No KV cache moves, and the side channel does not speak NIXL's protocol: real and simulated
// servers do not mix.
//
// # SGLang
//
// `python3 -m sglang.launch_server` is the same engine under SGLang's flags: /health, /v1,
// /generate for one prompt a request, /model_info, /server_info and /flush_cache, no /metrics.
// With --nnodes node 0 opens its port once every other rank has said its number at
// --dist-init-addr. A value behind an option that takes none is refused, as argparse does.
//
// SGLang's real client and its real router can run in front of these servers: [knobs] lists
// PROFLLM_SIM_SGLANG. The router sends a request to prefill and to decode at once, with one
// bootstrap_room; decode asks prefill at its --disaggregation-bootstrap-port for the KV cache of
// that room, and waits until prefill has computed the prompt.
//
// The simulated router is profllm's proxy, so prefill and decode are asked one after the other.
// `python3 -m sglang.bench_serving`, or sglang.benchmark.serving, is profllm's load client over
// /v1/completions, its result under SGLang's keys, with "simulated": true; `python3 -m
// sglang.test.run_eval` knows --eval-name gsm8k.
//
// # Dynamo
//
// `python3 -m dynamo.vllm`, dynamo.sglang and dynamo.mocker are the same engine under Dynamo's
// flags, at a port of its own choice, with health and counters at DYN_SYSTEM_PORT. A worker
// registers by a file below DYN_FILE_KV, also where the plan has etcd. `python3 -m dynamo.frontend`
// takes the registered workers in turn; where workers of prefill are among them, it asks one first
// and hands what it says of its KV cache to decode. Its /tokenize and /detokenize are not Dynamo's:
// the stand-in of AIPerf has no tokenizer.
//
// # Ray
//
// `ray start` keeps, per user and PROFLLM_NODE_ADDR, one small file in TMPDIR by which `ray
// status`, `ray stop` and the engine find the node's daemon. The registry is a TCP listener on
// the head's port and speaks to this package only.
//
// # Profilers
//
// `nsys profile [options] COMMAND` runs the command and writes a report that holds no trace,
// only what was run and that it is simulated. With --capture-range=cudaProfilerApi, it writes none
// unless the simulated vLLM behind it was told to start its profiler. On SIGTERM or SIGINT it
// ends the command with SIGTERM first. Other commands of nsys are not simulated. `viztracer
// [options] -- COMMAND` does the same with a trace of no calls.
//
// # GPUs
//
// `nvidia-smi` answers --query-gpu and --query-compute-apps, once or every so often with -lms,
// for as many GPUs as PROFLLM_SIM_GPUS says: at work 95 % of the time, at 400 W and 1980 MHz,
// whatever the engine does; one that is made idle draws 70 W at 345 MHz. Names, drivers and
// uuids say that they are simulated. Nobody's process is on them.
//
// # Faults
//
//	PROFLLM_SIM_FAULTS = group { ";" group }
//	group              = ( role | "*" ) ":" fault { "," fault }
//	fault              = name [ "=" value ]
//
// [knobs.Faults] lists the names.
//
// A group applies where its role equals PROFLLM_ROLE; "*" is every server. The load client
// (`vllm bench serve`) obeys only groups whose role is "client", and of those die-at-start,
// die-after, hang, exit, freeze, step and pace; the simulated GPUs obey only groups whose role
// is "gpu", and of those the last five faults.
//
// # Flags
//
// `vllm serve MODEL [flags]` takes the model first or as --model, as profllm renders it. What
// the parser of vLLM 0.32.0 refuses is refused in its words, with exit code 2: names it does
// not know (the beginning of one is enough, as with argparse), too few or too many values, a
// word where a number is due, an unknown choice, a number beyond a limit.
// PROFLLM_SIM_FLAGS=0.10.2 gives it the parser of another release, any takes every name and
// value. Flags whose effect is not simulated are logged; what
// JSON holds is not looked at, but for --kv-transfer-config and --profiler-config. --config is refused, because its
// file would be ignored. A model is never looked for, also where it is an absolute path: that
// lies in a container or on a node of a cluster, where no rehearsal can see it.
//
// # Tools
//
// The programs of nccl-tests, ucc_perftest and fio have stand-ins that do nothing and say so;
// `bash -c TEXT`, for text that was written for an image, has the text parsed and does not run
// it. Faults do not apply to them.
package sim
