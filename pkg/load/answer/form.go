package answer

// A Form is how a server answers a request that succeeds.
type Form byte

const (
	// Choices are server-sent events with choices: completions and chat.
	Choices Form = iota
	// Responses are the server-sent events of the Responses API.
	Responses
	// Document is one JSON object that comes whole: embeddings, pooled values, ranks.
	Document
)

// Wanted says how the answer to a request is read.
type Wanted struct {
	Form   Form
	Tokens int  // that the request asked for; 0 is unknown
	Text   bool // keep the text of the answer
}
