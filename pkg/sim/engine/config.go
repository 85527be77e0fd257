package engine

// Config is what the simulated engine takes from its flags.
type Config struct {
	Model     string
	Names     []string // served model names; the first is what answers carry
	Host      string   // empty: every address
	Port      int
	MaxLen    int // tokens of prompt and answer together
	MaxSeqs   int // requests admitted at once
	BlockSize int // tokens per KV cache block
	TP, PP    int
	Connector string // KV connector; empty without --kv-transfer-config
	Consumer  bool   // the connector may fetch
	Prefix    bool   // prefix caching
	APIKeys   []string
	Ray       bool
	Headless  bool
	Profile   Profile
	SGLang    bool // answers as SGLang does, not as vLLM
}

// Defaults of vLLM 0.32.0 on a GPU, where they do not depend on the model.
const (
	DefaultPort      = 8000
	DefaultMaxLen    = 32768 // a real engine takes it from the model's config.json, which is not read
	DefaultMaxSeqs   = 256
	DefaultBlockSize = 16
)
