package failure

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// The kinds of what may be wrong.
const (
	configuration = "configuration"
	file          = "file"
	model         = "model"
	environment   = "environment"
	resource      = "resource"
	network       = "network"
	defect        = "defect"
)

// A nature says what kind of thing a failure is about, and which one: an option, a
// file, an address, a module.
type nature struct{ kind, about string }

// kindOfArea is the kind of the failures of an area of the table.
var kindOfArea = map[string]string{
	"gpu-memory": resource, "host-memory": resource, "shm": resource, "limits": resource,
	"nccl": network, "rdma": network, "port": network, "network": network, "client": network, "proxy": network,
	"services": network, "ray": network,
	"model": model, "hub": model, "tokenizer": model, "config": configuration, "slurm-submit": configuration,
	"slurm-queue": configuration,
	"env":         environment, "container": environment, "gpu": environment, "slurm-step": environment,
	"slurm-job":  environment,
	"filesystem": file, "engine": defect,
}

// kindOfID is the kind of those that differ from their area.
var kindOfID = map[string]string{
	"no-space": resource, "disk-quota": resource, "slurm-time-limit": resource, "process-killed": resource,
	"process-terminated": environment,
	"client-model-name":  configuration, "client-context-overflow": configuration, "client-not-found": configuration,
	"client-bad-request": configuration,
	"eval-task-unknown":  configuration, "eval-model-type": configuration,
	"client-unauthorized": configuration, "backend-not-found": configuration, "backend-bad-request": configuration,
	"backend-unauthorized": configuration,
	"backend-failed":       defect, "client-bad-answer": defect,
	"ray-resources-missing": resource, "ray-node-oom": resource, "ray-object-store": resource,
	"ray-version-mismatch": environment, "ray-auth": configuration,
	"connector-unknown": configuration, "nixl-missing": environment, "nixl-mismatch": environment,
	"chat-template-missing": file, "permission-denied": file,
	"container-mount": file, "container-image-broken": file, "container-workdir": file,
	"container-option": configuration,
	"program-missing":  environment, "exec-format": environment, "model-path-missing": model,
	"dynamo-discovery-folder": file, "dynamo-admission": configuration, "dynamo-mocker-handoff": configuration,
	"dynamo-workers-differ": configuration, "dynamo-model-unknown": configuration, "dynamo-tokenizer": model,
	"dynamo-kv-events": configuration,
	"aiperf-options":   configuration, "aiperf-offline-path": configuration,
	"engine-killed": environment, "lost": environment, "json-invalid": file,
	"slurm-step-nodes": configuration, "slurm-relative-beyond": configuration, "slurm-step-gres": configuration,
	"submit-maybe-accepted": network, "slurm-unreachable": network,
}

// silent are the ids that do not say what kind of thing is wrong.
var silent = []string{"", generic, ownMessage, "json-invalid", "cpp-exception"}

// kindOf is the kind of a known failure, "" of one that says nothing about it.
func kindOf(id, area string) string { return cmp.Or(kindOfID[id], kindOfArea[area]) }

// exception is the last line of a traceback, taken apart.
var exception = lazyregexp.New(`(?s)^(?:\d+: |Error \d+: )?((?:[A-Za-z_]\w*\.)*)(_?[A-Z]\w*)(?:: ?(.*))?$`)

// A clause gives what matches a kind.
type clause struct {
	re   *lazyregexp.Regexp
	kind string
}

// byType are kinds of exceptions by the names of their classes.
var byType = []clause{
	{lazyregexp.New(`^(?:ModuleNotFound|Import|PackageNotFound|VersionConflict|DistributionNotFound)(?:Error)?$`),
		environment},
	{lazyregexp.New(`Memory|OutOf[A-Z]|ResourceExhausted|^BlockingIOError$`), resource},
	{lazyregexp.New(`^(?:ZeroDivision|Name|UnboundLocal|Recursion|Syntax|Indentation|System)Error$`), defect},
	{lazyregexp.New(`^(?:Safetensor|Repository|Repo|Revision|HFValidation|EntryNotFound|LocalEntryNotFound|Gated|Template|Tokenizer)|^UndefinedError$`), model},
	{lazyregexp.New(`^(?:Connect|Connection|Broken[Pp]ipe|Timeout|ReadTimeout|ConnectTimeout|gaierror|HTTP|URL|InvalidURL|ZMQ|Rpc|AioRpc|SSL|Socket|Client\w+Error|Server(?:Disconnected|Timeout)|` +
		`RemoteProtocol|Remote\w*Disconnected|API(?:Connection|Status|Timeout)|NewConnection|MaxRetry|Proxy|DistNetwork|DistStore|nixl\w*)`), network},
	{lazyregexp.New(`^(?:Validation|Argument|Usage|BadParameter|NoSuchOption|MissingParameter|Config\w*|Omega\w*|Hydra\w*)(?:Error|Exception|TypeError)?$`), configuration},
	{lazyregexp.New(`JSONDecode|YAML|^Scanner|^Parser|TOMLDecode|Unicode\w*code|Unpickling|BadZip|BadGzip|^EOFError$|^ArrowInvalid$|^LZMAError$`), file},
}

// byErrno are kinds of the system's errors.
var byErrno = map[syscall.Errno]string{
	syscall.ENOENT: file, syscall.EACCES: file, syscall.EPERM: file, syscall.EISDIR: file, syscall.ENOTDIR: file,
	syscall.EEXIST: file, syscall.EROFS: file,
	syscall.ENAMETOOLONG: file, syscall.EIO: file, syscall.ESTALE: file, syscall.ENOEXEC: environment,
	syscall.ENOSPC: resource, syscall.EDQUOT: resource, syscall.ENOMEM: resource, syscall.EMFILE: resource,
	syscall.ENFILE: resource, syscall.EAGAIN: resource, syscall.EFBIG: resource,
	syscall.EADDRINUSE: network, syscall.EADDRNOTAVAIL: network, syscall.ECONNREFUSED: network,
	syscall.ECONNRESET: network, syscall.ECONNABORTED: network,
	syscall.EHOSTUNREACH: network, syscall.ENETUNREACH: network, syscall.ETIMEDOUT: network, syscall.EPIPE: network,
	syscall.ENOTCONN: network,
}

var errno = lazyregexp.New(`\[Errno (\d+)\]|\(os error (\d+)\)|\berrno[:= ]+(\d+)`)

// byFacts are kinds by the facts that a message states, and byTone, which is tried last,
// by the words in which programs refuse something; each in the order of its rows.
var byFacts = []clause{
	{lazyregexp.New(`(?i)out of memory|no space left|not enough (?:\w+ )?(?:memory|space|gpus?|cpus?|blocks)|insufficient|too many open files|(?:cannot|unable to) allocate|limit exceeded|quota|exceeds (?:the )?available|too large to fit`), resource},
	{lazyregexp.New(`(?i)no such file|not a directory|is a directory|permission denied|(?:file|path|directory|folder) \S+ (?:does not|doesn't) exist|(?:file|directory) not found`), file},
	{lazyregexp.New(`(?i)connection (?:refused|reset|aborted|closed|error|timed out)|unreachable|name resolution|address already in use|cannot assign requested address|could not resolve|failed to (?:connect|download|fetch)|error downloading|timed out (?:waiting for|connecting)`), network},
}

var byTone = []clause{
	{lazyregexp.New(`(?i)\b(?:checkpoint|safetensors|weights?|tokenizer|config\.json|huggingface|repo(?:sitory)? id|lora|adapter|chat template)\b|model (?:architecture|name|path)`), model},
	{lazyregexp.New(`(?i)\b(?:CUDA|ROCm|HIP|GPU|driver|cuDNN|NCCL) (?:is not|not|error|driver|version)|no module named|not installed|pip install|the requirement |has no attribute|unexpected keyword argument|undefined symbol|environment variable`), environment},
	{lazyregexp.New(`(?i)\b(?:must|should|expected|expects|invalid|unsupported|not supported|does not support|unknown|unrecognized|requires?|required|choose from|allowed|only (?:supports?|one of)|cannot|greater than|less than|divisible|not (?:a )?valid|is not (?:a|an|one of))\b`), configuration},
	{lazyregexp.New(`\bGPU\b`), environment},
}

// byFrame are kinds by where a program was, of the innermost frame that is known.
var byFrame = []clause{
	{lazyregexp.New(`argparse\.py$|arg_utils\.py$|/click/|/typer/|/pydantic/|cli_args\.py$|/vllm/config/|/vllm/platforms/|server_args\.py$|/omegaconf/|/hydra/|configparser\.py$`), configuration},
	{lazyregexp.New(`/(?:transformers|tokenizers|safetensors|huggingface_hub|sentencepiece|mistral_common|compressed_tensors|jinja2)/|/model_(?:loader|executor)/|/transformers_utils/|/lora/|/model_runner\.py$|/vllm/tokenizers/`), model},
	{lazyregexp.New(`/(?:aiohttp|httpx|httpcore|urllib3?|requests|zmq|grpc|websockets|nixl\w*|openai)/|(?:socket|selectors|ssl)\.py$|/kv_transfer/|/torch/distributed/|/device_communicators/|/ray/_private/(?:gcs|services)|/disaggregation/`), network},
	{lazyregexp.New(`/(?:json|yaml|tomllib|tomli|csv|datasets|pyarrow)/|(?:json/decoder|pathlib|shutil|zipfile|tarfile|csv|tomllib)\.py$|/pandas/io/`), file},
	{lazyregexp.New(`multiprocessing/(?:shared_memory|heap)\.py$|/mmap|kv_cache_utils\.py$`), resource},
	{lazyregexp.New(`importlib|ctypes/__init__\.py$|/torch/cuda/|subprocess\.py$|/triton/|/torch/_inductor/|/pkg_resources/|os\.py$|/site-packages/ray/_private/node\.py$`), environment},
}

// speech is what a line says, and what surrounds it.
type speech struct {
	text    string // without prefixes
	frames  []frame
	options []option // of the step's own command
}

// nature finds the kind by rules, the surest first: what the exception is, what the
// system calls it, what it says, where it was raised.
func (s speech) nature() nature {
	class, message := s.parts()
	kind := cmp.Or(ofErrno(message), s.ofClass(class), ofOption(class, message, s.options), ofWords(message, byFacts),
		s.ofFrame(), ofWords(message, byTone), defect)
	return nature{kind, s.about(kind, message)}
}

// parts are the class of an exception, "" of other lines, and its message.
func (s speech) parts() (class, message string) {
	if m := exception.FindStringSubmatch(s.text); m != nil {
		return m[2], m[3]
	}
	return "", s.text
}

func ofErrno(message string) string {
	if m := errno.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1] + m[2] + m[3])
		return byErrno[syscall.Errno(n)]
	}
	return ""
}

// ofClass is the kind of a class of exceptions. A file that cannot be understood is the
// model's, or an option's, where such a reader met it.
func (s speech) ofClass(class string) string {
	if ofSystem.MatchString(class) {
		return file
	}
	for _, t := range byType {
		if class == "" || !t.re.MatchString(class) {
			continue
		}
		if t.kind == file {
			return cmp.Or(s.ofFrame(model, configuration), file)
		}
		return t.kind
	}
	return ""
}

// ofSystem are the exceptions for what the system says of a file.
var ofSystem = lazyregexp.New(`^(?:FileNotFound|FileExists|IsADirectory|NotADirectory|Permission)Error$`)

// judged are exceptions by which programs refuse what they were given.
var judged = lazyregexp.New(`^(?:Value|Type|Key|Index|Assertion|NotImplemented|Attribute|Lookup|Runtime|ArgumentType|Argument|Validation)\w*$`)

func ofOption(class, message string, options []option) string {
	if !judged.MatchString(class) {
		return ""
	}
	o, ok := blamed(message, options)
	switch {
	case ok && slices.Contains(ofModel, o.name):
		return model
	case ok, longOption.MatchString(message):
		return configuration
	}
	return ""
}

// badValue is the id of an option's value that the program refuses.
const badValue = "flag-bad-value"

// badValue returns the option that an exception refuses by quoting its value.
func (s speech) badValue() (option, bool) {
	class, message := s.parts()
	if !judged.MatchString(class) {
		return option{}, false
	}
	o, ok := blamed(message, s.options)
	return o, ok && !slices.Contains(ofModel, o.name)
}

func ofWords(message string, by []clause) string {
	for _, w := range by {
		if w.re.MatchString(message) {
			return w.kind
		}
	}
	return ""
}

// ofFrame is the kind of the innermost frame that is known, of those kinds if any are
// given.
func (s speech) ofFrame(kinds ...string) string {
	for _, f := range s.frames {
		for _, known := range byFrame {
			if (len(kinds) == 0 || slices.Contains(kinds, known.kind)) && known.re.MatchString(f.file) {
				return known.kind
			}
		}
	}
	return ""
}

var (
	longOption = lazyregexp.New(`(?:^|[\s'"\x60(\[])(--[a-zA-Z][\w-]*\w)`)
	variable   = lazyregexp.New(`\b((?:VLLM|NCCL|UCX|CUDA|HF|RAY|NIXL|SGLANG|SLURM|TORCH|GLOO|OMP|HIP|ROCM|DYN|ETCD|NATS)_[A-Z0-9_]+|PATH|LD_LIBRARY_PATH|PYTHONPATH)\b`)
	quotedPath = lazyregexp.New(`['"\x60]([^'"\x60\s]*[/.][^'"\x60\s]*)['"\x60]`)
	barePath   = lazyregexp.New(`(?:^|[\s=:(<'"])(/[\w.+@%~-]+(?:/[\w.+@%~-]*)*)`)
	address    = lazyregexp.New(`((?:https?|tcp|ipc|grpc|nats|etcd|ucx)://[^\s'"\x60,)\]]+)|\('([\w.:-]+)', (\d+)\)|host='([\w.-]+)', port=(\d+)|\b((?:\d{1,3}\.){3}\d{1,3}:\d{1,5})\b|` +
		`\b([\w.-]+) port (\d{2,5})\b|\b([A-Za-z](?:[\w-]|\.[\w-])*:\d{3,5})\b|\[([0-9a-f:]+)\]:(\d+)|\b((?:\d{1,3}\.){3}\d{1,3})\b`)
	// inSource is a place in a program, which has the form of an address.
	inSource   = lazyregexp.New(`\.(?:py|pyx|cc|cpp|h|hpp|c|cu|rs|go|js):\d+$`)
	portOnly   = lazyregexp.New(`(?i)\bport (?:number )?:?(\d{2,5})\b`)
	refusal    = lazyregexp.New(` \(([a-z_][\w.]*)\)$`)
	moduleName = lazyregexp.New(`[Nn]o module named '?([\w.]+)|cannot import name '(\w+)'|(\S+\.so[.\d]*)\b|module '([\w.]+)'`)
	snakeWord  = lazyregexp.New(`\b([a-z]+(?:_[a-z0-9]+)+)\b`)
	unbound    = lazyregexp.New(`(\w+): unbound variable`)
	lastWord   = lazyregexp.New(`(?:: |\bfor )([\w./-]+)$`)
	quotedWord = lazyregexp.New("['\"\x60]([^'\"\x60<>]{1,120})['\"\x60]")
	pciDevice  = lazyregexp.New(`\(PCI:([0-9A-Fa-f:.]+)\)`)
	// ofPort is in what is said of a port that the program itself opens.
	ofPort = lazyregexp.New(`(?i)\b(?:ports?|bind\w*|listen\w*|address)\b`)
	// stampText is a time, which has the form of a path or of an address.
	stampText = lazyregexp.New(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?`)
)

// offer is how a message ends that lists what could have been given instead, and what
// pydantic adds to one.
var offer = lazyregexp.New(`(?is)(?:[.(,;] ?(?:it )?(?:must be one of|choose from|supported \w+:|valid \w+ are|expected one of|available \w+:|known \w+:).*| \[type=\w+, input_value=.*)$`)

// about is the thing itself: what a kind is usually about first, then whatever a
// message quotes, then where the program was.
func (s speech) about(kind, message string) string {
	named := firstOf(refusal, message)
	message = stampText.ReplaceAllString(message[:len(message)-len(offer.FindString(message))], "")
	o, quoted := blamed(message, s.options)
	option := o.name
	var list []string
	switch kind {
	case configuration:
		list = []string{named, firstOf(longOption, message), option, firstOf(variable, message),
			firstOf(snakeWord, message), firstOf(quotedWord, message), firstOf(lastWord, message), s.target()}
	case file:
		list = []string{firstOf(quotedPath, message), firstOf(barePath, message), firstOf(quotedWord, message), option}
	case model:
		if quoted && slices.Contains(ofModel, o.name) {
			return o.value
		}
		list = []string{firstOf(quotedPath, message), firstOf(barePath, message), firstOf(quotedWord, message),
			s.model()}
	case network:
		list = []string{addressIn(message), firstOf(portOnly, message), option, firstOf(variable, message),
			s.ownPort(message)}
	case environment:
		list = []string{firstOf(pciDevice, message), firstOf(unbound, message), firstOf(variable, message),
			firstOf(moduleName, message), firstOf(barePath, message), firstOf(quotedWord, message),
			firstOf(lastWord, message)}
	case resource:
		list = []string{firstOf(quotedPath, message), firstOf(barePath, message), option, firstOf(snakeWord, message)}
	}
	return cmp.Or(cmp.Or(list...), s.place())
}

// ownPort is the port of the step's own command, if the message speaks of one.
func (s speech) ownPort(message string) string {
	if !ofPort.MatchString(message) {
		return ""
	}
	return s.value("--port")
}

// model is the model of the step's own command.
func (s speech) model() string { return s.value(ofModel...) }

// target is what a client asked for.
func (s speech) target() string {
	path, name := s.value("--endpoint"), s.value("--served-model-name", "--model")
	if path == "" || name == "" {
		return ""
	}
	return path + " of model " + name
}

// value is that of an option of the step's own command, of the first name that it has.
func (s speech) value(names ...string) string {
	for _, name := range names {
		for _, o := range s.options {
			if o.name == name && o.value != "" {
				return o.value
			}
		}
	}
	return ""
}

// addressIn is the first address in a message.
func addressIn(message string) string {
	for _, found := range address.FindAllString(message, -1) {
		if !inSource.MatchString(found) {
			return firstOf(address, found)
		}
	}
	return ""
}

// ofLibrary is where Python keeps what is not the program's own.
var ofLibrary = lazyregexp.New(`/(?:site|dist)-packages/|/lib/python[\d.]+/|^<`)

// place is where the program was: in its own code, if the traceback shows any.
func (s speech) place() string {
	if len(s.frames) == 0 {
		return ""
	}
	own := max(0, slices.IndexFunc(s.frames, func(f frame) bool { return !ofLibrary.MatchString(f.file) }))
	return path.Base(s.frames[own].file) + ":" + s.frames[own].line
}

// nextOf is what to do about a kind of failure that has no entry of its own; the thing
// follows.
var nextOf = map[string]string{
	configuration: "correct the setting that the line names",
	file:          "check that the file exists, is complete, and is readable on the node that wrote the log",
	model:         "check the files of the model, and that this engine version supports it",
	environment:   "check the image, the installed packages and the variables of the step",
	resource:      "give the step more of the resource that ran out, or lower the demand",
	network:       "check the address, and that the server there runs and can be reached from that node",
	defect:        "the program failed in its own code: look the line up for this version, or report it with the traceback",
}

// next is what to do.
func (c clue) next() string {
	text, ok := nextOf[c.Nature]
	switch {
	case c.entry.ID != generic && c.entry.ID != ownMessage || !ok:
		return c.Next
	case c.About != "":
		text += ": " + c.About
	}
	return text
}

// firstOf returns the groups of the first match, joined as an address is.
func firstOf(re *lazyregexp.Regexp, text string) string {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.TrimRight(strings.Join(slices.DeleteFunc(m[1:], func(s string) bool { return s == "" }), ":"),
		".,:;")
}
