package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/profllm/profllm/pkg/hub"
	"github.com/profllm/profllm/pkg/load/datafile"
	"github.com/profllm/profllm/pkg/load/dataset"
)

// source returns what makes the requests that the options ask for.
func (o *Options) source(m model, api *server, stderr io.Writer) *dataset.Source {
	s := &dataset.Source{
		Flags: &o.Flags, Chat: o.serverTemplates(), Pooling: o.pools(), Vocabulary: m.vocabulary,
		Raw: o.SkipTokenizerInit || o.protocol().prompt == textPrompt,
		Log: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
	if o.ChatTemplateKwargs != nil {
		s.Kwargs = o.ChatTemplateKwargs.json()
	}
	cache := datafile.Cache{Dir: o.DataCache, Client: &http.Client{Transport: &http.Transport{Proxy: o.Proxy}},
		Log: s.Log}
	s.Fetch = cache.Get
	if !o.SkipTokenizerInit {
		s.Tokenizer = &serverTokenizer{api, m.name}
		s.Local = o.vocabulary(s.Log)
	}
	return s
}

// vocabulary reads the vocabulary of --tokenizer, if that is a folder or in Hugging Face's cache. A
// model's own folder is not looked at: whoever names a tokenizer wants vLLM's text, for which the
// server has to be asked, and others want exact token ids.
func (o *Options) vocabulary(log func(format string, args ...any)) *dataset.Vocabulary {
	folder := o.Tokenizer
	if folder == "" {
		return nil
	}
	if st, err := os.Stat(folder); err != nil || !st.IsDir() {
		if folder = (hub.Model{Name: o.Tokenizer, Cache: o.HubCache}).Folder(); folder == "" {
			log("--tokenizer %s is not used: there is no such folder, and no such model in Hugging Face's cache",
				o.Tokenizer)
			return nil
		}
	}
	v, err := dataset.ReadVocabulary(folder)
	if err != nil {
		log("--tokenizer %s is not used: %v", o.Tokenizer, err)
		return nil
	}
	return v
}

// A serverTokenizer asks the server under load, before the load, for what its tokenizer makes of
// text: vLLM and SGLang offer that.
type serverTokenizer struct {
	api   *server
	model string
}

// Encode implements [dataset.Tokenizer].
func (t *serverTokenizer) Encode(ctx context.Context, texts []string, special bool) ([][]int, error) {
	return askAll(ctx, texts, func(text string) ([]int, error) {
		return t.tokenize(ctx, map[string]any{"model": t.model, "prompt": text, "add_special_tokens": special})
	})
}

// Chat implements [dataset.Tokenizer].
func (t *serverTokenizer) Chat(ctx context.Context, chats []dataset.Messages, kwargs json.RawMessage) ([][]int, error) {
	return askAll(ctx, chats, func(chat dataset.Messages) ([]int, error) {
		in := map[string]any{"model": t.model, "messages": json.RawMessage(chat), "add_generation_prompt": true,
			"add_special_tokens": false}
		if kwargs != nil {
			in["chat_template_kwargs"] = kwargs
		}
		return t.tokenize(ctx, in)
	})
}

func (t *serverTokenizer) tokenize(ctx context.Context, in map[string]any) ([]int, error) {
	var out struct{ Tokens []int }
	err := t.api.call(ctx, "POST", "/tokenize", in, &out)
	return out.Tokens, without(err)
}

// Decode implements [dataset.Tokenizer].
func (t *serverTokenizer) Decode(ctx context.Context, ids [][]int) ([]string, error) {
	return askAll(ctx, ids, func(list []int) (string, error) {
		if len(list) == 0 {
			return "", nil
		}
		var out struct{ Prompt string }
		err := t.api.call(ctx, "POST", "/detokenize", map[string]any{"model": t.model, "tokens": list}, &out)
		return out.Prompt, without(err)
	})
}

// without marks a refusal as the lack of a tokenizer.
func without(err error) error {
	var refused *statusError
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: the server refuses to be one: %w", dataset.ErrNoTokenizer, err)
	}
	return err
}

// askAll asks for several things at a time and returns the answers in order. The first is asked
// alone: if it fails, so will the others.
func askAll[In, Out any](ctx context.Context, list []In, ask func(In) (Out, error)) ([]Out, error) {
	out := make([]Out, len(list))
	errs := make([]error, len(list))
	if len(list) == 0 {
		return out, nil
	}
	if out[0], errs[0] = ask(list[0]); errs[0] != nil {
		return nil, errs[0]
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(askers, len(list)-1) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() == nil {
					out[i], errs[i] = ask(list[i])
				}
			}
		})
	}
	for i := 1; i < len(list); i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
