package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/dataset"
)

// A Backend is a protocol of vLLM's client, by its name.
type Backend string

// A protocol is how the requests of a backend look and where they go.
type protocol struct {
	suffix   string // of the endpoint
	endpoint string // in place of vLLM's default, which fits completions alone
	form     answer.Form
	prompt   promptForm
	members  func(b *bodyWriter) // the members of a body, in vLLM's order
}

// A promptForm is what a prompt has to be.
type promptForm byte

const (
	anyPrompt  promptForm = iota // token ids, text or texts
	textPrompt                   // text, texts or messages
	chatPrompt                   // messages
	rankPrompt                   // texts: a query and the documents to rank
)

// protocols are the backends that are supported, with the endpoints that vLLM's client accepts
// (0.32, vllm/benchmarks/lib/endpoint_request_func.py).
var protocols = map[Backend]protocol{
	"vllm":                   {"completions", "/v1/completions", answer.Choices, anyPrompt, completionMembers},
	"openai":                 {"completions", "/v1/completions", answer.Choices, anyPrompt, completionMembers},
	"openai-chat":            {"chat/completions", "/v1/chat/completions", answer.Choices, chatPrompt, chatMembers},
	"openai-responses":       {"responses", "/v1/responses", answer.Responses, textPrompt, responsesMembers},
	"openai-embeddings":      {"embeddings", "/v1/embeddings", answer.Document, anyPrompt, embeddingMembers},
	"openai-embeddings-chat": {"embeddings", "/v1/embeddings", answer.Document, chatPrompt, chatEmbeddingMembers},
	"infinity-embeddings":    {"embeddings", "/v1/embeddings", answer.Document, textPrompt, infinityMembers},
	"vllm-pooling":           {"pooling", "/pooling", answer.Document, anyPrompt, embeddingMembers},
	"vllm-rerank":            {"rerank", "/rerank", answer.Document, rankPrompt, rankMembers},
}

// backendNames are the backends that are supported, in vLLM's order.
const backendNames = "vllm, openai, openai-chat, openai-responses, openai-embeddings, openai-embeddings-chat, " +
	"infinity-embeddings, vllm-pooling, vllm-rerank"

// refusedBackends are backends of vLLM's client that this one lacks, and why.
var refusedBackends = map[Backend]string{
	"openai-audio":              "this client makes no audio",
	"openai-embeddings-clip":    "this client makes no images",
	"openai-embeddings-vlm2vec": "this client makes no images",
	"infinity-embeddings-clip":  "this client makes no images",
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Backend) UnmarshalText(text []byte) error {
	*b = Backend(text)
	if why := refusedBackends[*b]; why != "" {
		return fmt.Errorf("%q is not supported, because %s; vLLM's own client has it", text, why)
	}
	if _, ok := protocols[*b]; !ok {
		return fmt.Errorf("%q must be one of %s", text, backendNames)
	}
	return nil
}

func (o *Options) protocol() protocol { return protocols[o.Backend] }

// chat reports whether prompts are messages, to which the server applies its chat template.
func (o *Options) chat() bool { return o.protocol().prompt == chatPrompt }

// serverTemplates reports whether the server applies its chat template to prompts.
func (o *Options) serverTemplates() bool { return o.chat() || o.Backend == "openai-responses" }

// pools reports whether answers are numbers instead of text.
func (o *Options) pools() bool { return o.protocol().form == answer.Document }

// checkBackend refuses what the protocol cannot say.
func (o *Options) checkBackend() error {
	switch {
	case o.Logprobs != nil && o.protocol().suffix != "completions":
		return fmt.Errorf("--logprobs: only completions take a number of them; with --backend %s, set --extra-body",
			o.Backend)
	case o.ChatTemplateKwargs != nil && !o.serverTemplates() && !o.Templated():
		return fmt.Errorf("--chat-template-kwargs: nothing applies a chat template to prompts of %s with --backend %s",
			o.DatasetName, o.Backend)
	case o.Backend == "vllm-rerank" && o.DatasetName != "random-rerank":
		return errors.New("--backend vllm-rerank needs a query and documents: set --dataset-name random-rerank")
	case o.DatasetName == "random-rerank" && !o.pools():
		return fmt.Errorf("--dataset-name random-rerank is for backends that embed or rank, not %s", o.Backend)
	case o.DatasetName == "timed_trace" && o.protocol().prompt != anyPrompt:
		return fmt.Errorf("--dataset-name timed_trace sends token ids, which --backend %s does not take", o.Backend)
	case o.DatasetName == "random-mm" && o.Backend != "openai-chat":
		return fmt.Errorf("--dataset-name random-mm sends pictures in chats: use --backend openai-chat, not %s",
			o.Backend)
	case o.pools() && len(o.Goodput) > 0:
		return fmt.Errorf("--goodput: vLLM's client has none with --backend %s", o.Backend)
	case o.pools() && binary(o.ExtraBody):
		return fmt.Errorf("--extra-body: this client reads embeddings as float or base64, not as bytes")
	case o.ProbeRequestRate > 0 && o.Backend == "vllm-rerank":
		return fmt.Errorf("--probe-request-rate: a probe of one word is no request to rank")
	}
	return nil
}

// binary reports whether the members of a body ask for an answer that is not JSON.
func binary(o Object) bool {
	for _, m := range o {
		if m.Key == "encoding_format" && strings.HasPrefix(string(m.Value), `"bytes`) {
			return true
		}
	}
	return false
}

// A bodyWriter collects the members of a body that all requests share.
type bodyWriter struct {
	o    *Options
	body Object
}

func (b *bodyWriter) put(key string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings only; infinities were refused with the flags
	}
	b.body.set(key, raw)
}

func (b *bodyWriter) mark(key, mark string) { b.body.set(key, json.RawMessage(mark)) }

// Marks stand for the slots among the members of a body. No JSON value starts with a zero byte.
const (
	promptMark = "\x00p"
	queryMark  = "\x00q"
	ranksMark  = "\x00d"
	outputMark = "\x00o"
	modelMark  = "\x00m"
)

func completionMembers(b *bodyWriter) {
	b.mark("prompt", promptMark)
	b.put("repetition_penalty", 1.0)
	b.mark("max_tokens", outputMark)
	if b.o.Logprobs != nil {
		b.put("logprobs", *b.o.Logprobs)
	}
	b.streamed()
}

func chatMembers(b *bodyWriter) {
	b.mark("messages", promptMark)
	b.mark("max_completion_tokens", outputMark)
	b.streamed()
}

// streamed asks for a stream that ends with the server's count of tokens.
func (b *bodyWriter) streamed() {
	b.put("stream", true)
	b.body.set("stream_options", json.RawMessage(`{"include_usage":true}`))
}

// responsesMembers asks for a stream that the server forgets. A server that keeps responses
// would keep all of a run.
func responsesMembers(b *bodyWriter) {
	b.mark("input", promptMark)
	b.mark("max_output_tokens", outputMark)
	b.put("stream", true)
	b.put("store", false)
}

// wholePrompt lets the server cut a prompt to the length that its model takes, as vLLM's client
// does: models that embed or rank take short ones.
const wholePrompt = -1

func embeddingMembers(b *bodyWriter) {
	b.mark("input", promptMark)
	b.put("truncate_prompt_tokens", wholePrompt)
}

func chatEmbeddingMembers(b *bodyWriter) {
	b.mark("messages", promptMark)
	b.put("truncate_prompt_tokens", wholePrompt)
}

func infinityMembers(b *bodyWriter) { b.mark("input", promptMark) }

func rankMembers(b *bodyWriter) {
	b.mark("query", queryMark)
	b.mark("documents", ranksMark)
	b.put("truncate_prompt_tokens", wholePrompt)
}

// requestMembers returns the body as vLLM's client composes it, in its order. Extra members win
// over all others.
func requestMembers(o *Options, name string) Object {
	b := &bodyWriter{o: o}
	if b.put("model", name); len(o.LoraModules) > 0 {
		b.mark("model", modelMark)
	}
	o.protocol().members(b)
	if o.fullAnswers() {
		b.put("ignore_eos", true)
	}
	if o.ChatTemplateKwargs != nil && o.serverTemplates() { // else the data set applies the template
		b.body.set("chat_template_kwargs", o.ChatTemplateKwargs.json())
	}
	if !o.pools() {
		b.sampling()
	}
	for _, m := range o.ExtraBody {
		b.body.set(m.Key, m.Value)
	}
	return b.body
}

// sampling adds the sampling parameters that were set.
func (b *bodyWriter) sampling() {
	o := b.o
	if o.TopK != nil {
		b.put("top_k", *o.TopK)
	}
	for _, p := range []struct {
		key   string
		value *float64
	}{
		{"top_p", o.TopP},
		{"min_p", o.MinP},
		{"temperature", o.Temperature},
		{"frequency_penalty", o.FrequencyPenalty},
		{"presence_penalty", o.PresencePenalty},
		{"repetition_penalty", o.RepetitionPenalty},
	} {
		if p.value != nil {
			b.put(p.key, *p.value)
		}
	}
}

// fits says why the backend cannot ask a prompt, or "". Token ids become text before.
func (f promptForm) fits(p dataset.Prompt) string {
	texts, isTexts := p.(dataset.Texts)
	batch, _ := p.(dataset.Batch)
	switch f {
	case textPrompt:
		for _, one := range batch {
			if _, ids := one.(dataset.Tokens); ids {
				return "takes text: set --tokenizer, or leave out --random-batch-size"
			}
		}
	case rankPrompt:
		if !isTexts || len(texts) < 2 {
			return "needs a query and documents: set --dataset-name random-rerank"
		}
	case chatPrompt:
		switch p.(type) {
		case dataset.Messages, dataset.Illustrated:
		default:
			return "needs one chat a request"
		}
	}
	return ""
}

// sequences returns how many inputs a prompt has for a model that embeds or ranks.
func (f promptForm) sequences(p dataset.Prompt) int {
	switch list := p.(type) {
	case dataset.Batch:
		return len(list)
	case dataset.Texts:
		if f == rankPrompt {
			return len(list) - 1
		}
		return len(list)
	}
	return 1
}
