package engine

import (
	"encoding/json"
	"errors"
)

// sampling holds the request fields that completions and chat share. Fields that change nothing
// here are not read, as a real server ignores fields it does not know.
type sampling struct {
	Model          string         `json:"model"`
	MaxTokens      *int           `json:"max_tokens"`
	MinTokens      int            `json:"min_tokens"`
	N              *int           `json:"n"`
	Temperature    *float64       `json:"temperature"`
	TopP           *float64       `json:"top_p"`
	Seed           *int           `json:"seed"`
	Stop           stops          `json:"stop"`
	StopTokenIDs   []int          `json:"stop_token_ids"`
	AllowedIDs     []int          `json:"allowed_token_ids"`
	IgnoreEOS      bool           `json:"ignore_eos"`
	Stream         bool           `json:"stream"`
	StreamOptions  *streamOptions `json:"stream_options"`
	ReturnTokenIDs bool           `json:"return_token_ids"`
	KV             *KVParams      `json:"kv_transfer_params"`
	RequestID      string         `json:"request_id"`
	bootstrap
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

type completionRequest struct {
	sampling
	Prompt   *prompts `json:"prompt"`
	Echo     bool     `json:"echo"`
	Logprobs *int     `json:"logprobs"`
}

type chatRequest struct {
	sampling
	Messages            []message `json:"messages"`
	MaxCompletionTokens *int      `json:"max_completion_tokens"`
	Logprobs            bool      `json:"logprobs"`
	TopLogprobs         *int      `json:"top_logprobs"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a text, or parts of which the texts count.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil {
		if s != nil {
			*c = content(*s)
		}
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*c += content(p.Text)
	}
	return nil
}

// stops is one stop string or a list of them.
type stops []string

func (s *stops) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" {
			*s = stops{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// prompts is one prompt or several, each a text or a list of token ids.
type prompts struct {
	texts []string
	ids   [][]int // instead of texts
}

var errPrompt = errors.New("prompt is neither text nor token ids")

func (p *prompts) UnmarshalJSON(b []byte) error {
	var text string
	var ids []int
	switch {
	case json.Unmarshal(b, &text) == nil:
		p.texts = []string{text}
	case json.Unmarshal(b, &p.texts) == nil:
	case json.Unmarshal(b, &ids) == nil:
		p.texts, p.ids = nil, [][]int{ids}
	case json.Unmarshal(b, &p.ids) == nil:
		p.texts = nil
	default:
		return errPrompt
	}
	return nil
}

// The answers below carry every key of the real ones, in their order; a key that is always null
// here is a *struct{}.

type Null = *struct{}

type completion struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	Model       string             `json:"model"`
	Choices     []completionChoice `json:"choices"`
	ServiceTier Null               `json:"service_tier"`
	Fingerprint string             `json:"system_fingerprint"`
	Usage       fullUsage          `json:"usage"`
	KV          *KVParams          `json:"kv_transfer_params"`
	EC          Null               `json:"ec_transfer_params"`
	Metrics     Null               `json:"metrics"`
}

type completionChoice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       *logprobs `json:"logprobs"`
	FinishReason   string    `json:"finish_reason"`
	StopReason     any       `json:"stop_reason"`
	TokenIDs       []int     `json:"token_ids"`
	PromptLogprobs Null      `json:"prompt_logprobs"`
	PromptTokenIDs []int     `json:"prompt_token_ids"`
	RoutedExperts  Null      `json:"routed_experts"`
}

type completionChunk struct {
	ID          string                  `json:"id"`
	Object      string                  `json:"object"`
	Created     int64                   `json:"created"`
	Model       string                  `json:"model"`
	Choices     []completionChunkChoice `json:"choices"`
	Usage       *Usage                  `json:"usage,omitempty"`
	Fingerprint string                  `json:"system_fingerprint,omitempty"`
}

type completionChunkChoice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       *logprobs `json:"logprobs"`
	FinishReason   *string   `json:"finish_reason"`
	StopReason     any       `json:"stop_reason"`
	PromptTokenIDs []int     `json:"prompt_token_ids"`
	TokenIDs       []int     `json:"token_ids"`
}

type logprobs struct {
	TextOffset    []int                `json:"text_offset"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

type chat struct {
	ID             string       `json:"id"`
	Object         string       `json:"object"`
	Created        int64        `json:"created"`
	Model          string       `json:"model"`
	Choices        []chatChoice `json:"choices"`
	ServiceTier    Null         `json:"service_tier"`
	Fingerprint    string       `json:"system_fingerprint"`
	Usage          fullUsage    `json:"usage"`
	PromptLogprobs Null         `json:"prompt_logprobs"`
	PromptTokenIDs []int        `json:"prompt_token_ids"`
	PromptText     Null         `json:"prompt_text"`
	KV             *KVParams    `json:"kv_transfer_params"`
	EC             Null         `json:"ec_transfer_params"`
	Metrics        Null         `json:"metrics"`
}

type chatChoice struct {
	Index         int           `json:"index"`
	Message       chatMessage   `json:"message"`
	Logprobs      *chatLogprobs `json:"logprobs"`
	FinishReason  string        `json:"finish_reason"`
	StopReason    any           `json:"stop_reason"`
	TokenIDs      []int         `json:"token_ids"`
	RoutedExperts Null          `json:"routed_experts"`
}

type chatMessage struct {
	Role         string `json:"role"`
	Content      string `json:"content"`
	Refusal      Null   `json:"refusal"`
	Annotations  Null   `json:"annotations"`
	Audio        Null   `json:"audio"`
	FunctionCall Null   `json:"function_call"`
	Reasoning    Null   `json:"reasoning"`
}

type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	Token   string        `json:"token"`
	Logprob float64       `json:"logprob"`
	Bytes   []int         `json:"bytes"`
	Top     []chatLogprob `json:"top_logprobs,omitempty"`
}

// chatChunk is the envelope of all chat chunks; their choices differ in keys, first, middle and
// last.
type chatChunk[C any] struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Choices     []C    `json:"choices"`
	Usage       any    `json:"usage,omitempty"` // usage or chunkUsage
	Fingerprint string `json:"system_fingerprint,omitempty"`
}

// chatFirst is the first chunk of a choice.
type chatFirst struct {
	chatChunk[chatFirstChoice]
	PromptTokenIDs []int `json:"prompt_token_ids"`
	PromptText     Null  `json:"prompt_text"`
}

type chatFirstChoice struct {
	Index        int           `json:"index"`
	Delta        chatRole      `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

type chatRole struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatDelta struct {
	Content string `json:"content"`
}

type chatNextChoice struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	TokenIDs     []int         `json:"token_ids"`
}

type chatLastChoice struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
	StopReason   any           `json:"stop_reason"`
	TokenIDs     []int         `json:"token_ids"`
}

type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
}

// fullUsage is the usage of an answer in one piece.
type fullUsage struct {
	Usage
	PromptDetails     *promptDetails `json:"prompt_tokens_details"`
	CompletionDetails Null           `json:"completion_tokens_details"`
}

type promptDetails struct {
	Cached int `json:"cached_tokens"`
}

// chunkUsage is the running usage in a chat chunk.
type chunkUsage struct {
	Usage
	CompletionDetails Null `json:"completion_tokens_details"`
}

func tokensUsed(prompt, completion int) Usage {
	return Usage{Prompt: prompt, Total: prompt + completion, Completion: completion}
}
