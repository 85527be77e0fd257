package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/httpclient"
	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/dataset"
	"github.com/profllm/profllm/pkg/load/sender"
)

// A bodies renders the JSON body of every request. It is safe for concurrent use once made.
type bodies struct {
	pieces   []piece
	own      map[int][]piece // of requests whose bodies have members of their own
	requests []dataset.Request
	models   []string       // that the requests ask for, if they differ
	talks    *conversations // nil if no request follows another
	counted  bool           // an answer has as many tokens as its request asks for, at most
	// plainWords says that words stand for tokens, because nobody can turn these into text.
	plainWords bool
	tokenized  bool // the server turned text into tokens, or tokens into text, for these requests
}

// A piece is text that all bodies share, and what follows it.
type piece struct {
	text []byte
	next slot
}

// A slot is a place in a body that differs between requests.
type slot byte

const (
	slotEnd slot = iota
	slotPrompt
	slotQuery // the first of several texts
	slotRanks // the others
	slotOutput
	slotModel
)

// slots are the places that marks stand for.
var slots = map[string]slot{
	promptMark: slotPrompt, queryMark: slotQuery, ranksMark: slotRanks, outputMark: slotOutput, modelMark: slotModel,
}

// newBodies builds the bodies of all requests. It asks the server to turn text into tokens, or tokens
// into text, where a data set or the protocol needs that.
func newBodies(ctx context.Context, o *Options, m model, api *server, stderr io.Writer) (*bodies, error) {
	if o.talks() {
		return newTalks(ctx, o, m, api, stderr)
	}
	source := o.source(m, api, stderr)
	requests, err := source.Requests(ctx)
	if err != nil {
		return nil, err
	}
	words, tokenized := source.PlainWords, source.Tokenized
	if form := o.protocol().prompt; form == chatPrompt || form == textPrompt {
		made, err := promptTexts(ctx, requests, form, m, api, stderr)
		if err != nil {
			return nil, err
		}
		words, tokenized = words || made == plainWords, tokenized || made == serverText
	}
	if o.DatasetName == "random" && o.RandomBatchSize > 1 {
		requests = dataset.Batches(requests, o.RandomBatchSize)
	}
	for i := range requests {
		if why := o.protocol().prompt.fits(requests[i].Prompt); why != "" {
			return nil, fmt.Errorf("--backend %s %s", o.Backend, why)
		}
	}
	b := bodiesOf(o, m.name, requests)
	b.plainWords, b.tokenized = words, tokenized
	return b, nil
}

// bodiesOf returns the bodies of requests. name is the model's.
func bodiesOf(o *Options, name string, requests []dataset.Request) *bodies {
	all := requestMembers(o, name)
	b := &bodies{pieces: cut(all), requests: requests, models: o.adapters(len(requests)),
		counted: !o.pools() && !o.ExtraBody.changesLength()}
	for i := range requests {
		if len(requests[i].Extra) == 0 {
			continue
		}
		own := slices.Clone(all)
		for _, m := range requests[i].Extra {
			own.set(m.Key, m.Value)
		}
		if b.own == nil {
			b.own = make(map[int][]piece)
		}
		b.own[i] = cut(own)
	}
	return b
}

// changesLength reports whether members of a body change how many tokens or texts come back.
func (o Object) changesLength() bool {
	return slices.ContainsFunc(o, func(m dataset.Member) bool {
		switch m.Key {
		case "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "echo", "use_beam_search":
			return true
		}
		return false
	})
}

// cut turns members into pieces.
func cut(body Object) []piece {
	var pieces []piece
	text := []byte("{")
	for i, m := range body {
		if i > 0 {
			text = append(text, ',')
		}
		key, _ := json.Marshal(m.Key) // a string always marshals
		text = append(append(text, key...), ':')
		if next, ok := slots[string(m.Value)]; ok {
			pieces, text = append(pieces, piece{text, next}), nil
		} else {
			text = append(text, m.Value...)
		}
	}
	return append(pieces, piece{append(text, '}'), slotEnd})
}

// render appends the body of request i to dst.
func (b *bodies) render(dst []byte, i int) []byte {
	pieces := b.pieces
	if own, ok := b.own[i]; ok {
		pieces = own
	}
	for _, p := range pieces {
		dst = append(dst, p.text...)
		switch p.next {
		case slotOutput:
			dst = strconv.AppendInt(dst, int64(b.requests[i].Output), 10)
		case slotPrompt:
			dst = b.requests[i].Prompt.AppendJSON(dst)
		case slotQuery:
			dst = dataset.Text(b.requests[i].Prompt.(dataset.Texts)[0]).AppendJSON(dst)
		case slotRanks:
			dst = b.requests[i].Prompt.(dataset.Texts)[1:].AppendJSON(dst)
		case slotModel:
			dst = dataset.Text(b.models[i]).AppendJSON(dst)
		}
	}
	return dst
}

// A server is what is asked around a run, not during it: models, tokens, the profiler.
type server struct {
	base   string
	header http.Header
	client *http.Client
}

func newServer(o *Options) *server {
	return &server{base: o.Base(), header: o.headers(), client: httpclient.New(&http.Transport{
		Proxy:               o.Proxy,
		DialContext:         (&net.Dialer{Timeout: sender.ConnectLimit}).DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: o.Insecure},
		MaxIdleConnsPerHost: askers,
		IdleConnTimeout:     sender.IdleLimit,
	}, 0)}
}

// answerLimit bounds an answer that is not part of the load, in bytes: the ids of ten million
// tokens.
const answerLimit = 128 << 20

// headers returns the headers that every request carries.
func (o *Options) headers() http.Header {
	h := make(http.Header)
	h.Set("Content-Type", "application/json")
	if o.APIKey != "" {
		h.Set("Authorization", "Bearer "+o.APIKey)
	}
	pairs, _ := o.Header.pairs("=") // Validate has refused others
	for _, p := range pairs {
		h.Set(p.Key, p.Value)
	}
	return h
}

// A statusError is an answer that is not 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// asideLimit is how long an answer may take that is not part of the load; a profiler may write longer.
const asideLimit = 2 * time.Minute

// call sends in as JSON, unless nil, and decodes the answer into out, unless nil.
func (s *server) call(ctx context.Context, method, path string, in, out any) error {
	if !strings.HasSuffix(path, "_profile") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, asideLimit, fmt.Errorf("no answer within %s", asideLimit))
		defer cancel()
	}
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the request to %s: %w", path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return err
	}
	req.Header = s.header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, answer.ErrorBytes)) // what arrived is enough
		return &statusError{resp.StatusCode,
			fmt.Sprintf("%s %s: %s", method, path, answer.StatusText(resp.Status, text))}
	}
	limited := io.LimitReader(resp.Body, answerLimit)
	if out == nil {
		_, err := io.Copy(io.Discard, limited)
		return err
	}
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", path, err)
	}
	return nil
}
