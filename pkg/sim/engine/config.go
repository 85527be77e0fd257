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
	Connector string    // KV connector; empty without --kv-transfer-config
	Inside    []string  // the connectors of a MultiConnector
	Consumer  bool      // the connector may fetch
	Adapters  []Adapter // LoRA adapters
	Pooling   bool      // embeds and scores, and generates no text
	Draft     int       // tokens that speculative decoding drafts for each step; 0: off
	Prefix    bool      // prefix caching
	APIKeys   []string
	Ray       bool
	Headless  bool
	Profile   Profile
	SGLang    bool // answers as SGLang does, not as vLLM
}

// Adapter is a LoRA adapter: the name of a model in requests, and its path.
type Adapter struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Defaults of vLLM 0.32.0 on a GPU, where they do not depend on the model.
const (
	DefaultPort      = 8000
	DefaultMaxLen    = 32768 // a real engine takes it from the model's config.json, which is not read
	DefaultMaxSeqs   = 256
	DefaultBlockSize = 16
)
