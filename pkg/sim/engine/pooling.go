package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// dimensions is the length of an embedding of which no other is asked for.
const dimensions = 16

// poolingRoutes adds what vLLM answers with --runner pooling, in place of text generation.
// Every number in the answers is drawn from the texts; there is no model.
func (s *Server) poolingRoutes(route func(method, path string, h http.HandlerFunc)) {
	for path, h := range map[string]func(http.ResponseWriter, *http.Request) *refusal{
		"/v1/embeddings": s.embeddings, "/pooling": s.pooling, "/score": s.score, "/v1/score": s.score,
		"/rerank": s.rerank, "/v1/rerank": s.rerank, "/v2/rerank": s.rerank,
	} {
		route("POST", path, s.generation(h))
	}
}

// pool waits for admission and for one forward pass over each prompt, side by side.
func (s *Server) pool(ctx context.Context, prompts [][]int) *refusal {
	for _, p := range prompts {
		if refused := s.checkPrompt(p, false); refused != nil {
			return refused
		}
	}
	if len(prompts) > maxChoices {
		return bad("", "profllm sim answers at most %d inputs a request, got %d.", maxChoices, len(prompts))
	}
	errs := make(chan error, len(prompts))
	arrived := time.Now()
	for _, p := range prompts {
		seq := &sequence{prompt: p, arrived: arrived, seed: knobs.HashTokens(s.knobs.Timing.Seed, p),
			answer: answer{finish: "stop"}}
		go func() { errs <- s.engine.run(ctx, seq, nil) }()
	}
	var refused *refusal
	for range prompts {
		refused = cmp.Or(refused, whole(<-errs))
	}
	return refused
}

// pass is the time that a sequence without an answer takes.
func (e *engine) pass(ctx context.Context, s *sequence, start time.Time) error {
	due := request(e.timing, s.seed, false).first
	if !program.Wait(ctx, time.Until(start.Add(due))) {
		return ctx.Err()
	}
	return nil
}

type embeddingRequest struct {
	Model      string    `json:"model"`
	Input      *prompts  `json:"input"`
	Messages   []message `json:"messages"`
	Dimensions int       `json:"dimensions"`
	Encoding   string    `json:"encoding_format"`
}

type embedding struct {
	Index     int    `json:"index"`
	Object    string `json:"object"`
	Embedding any    `json:"embedding,omitempty"` // numbers, or their bytes in base64
	Data      any    `json:"data,omitempty"`      // the same of /pooling
}

// inputs returns the token ids of a request's inputs.
func (s *Server) inputs(q *embeddingRequest) ([][]int, *refusal) {
	switch {
	case q.Messages != nil:
		return [][]int{s.engine.tokens.encode(chatText(q.Messages))}, nil
	case q.Input == nil:
		return nil, invalid("body.input", problem("missing", "body.input", "Field required", "None"))
	}
	list, _, refused := s.prompts(q.Input)
	return list, refused
}

func (s *Server) embed(w http.ResponseWriter, r *http.Request, kind string) *refusal {
	var q embeddingRequest
	refused := decode(r, &q)
	if refused == nil {
		refused = s.checkModel(q.Model)
	}
	if refused != nil {
		return refused
	}
	list, refused := s.inputs(&q)
	if refused == nil {
		refused = s.pool(r.Context(), list)
	}
	if refused != nil {
		return refused
	}
	var data []embedding
	total := 0
	for i, p := range list {
		total += len(p)
		one := embedding{Index: i, Object: kind}
		switch v := vector(p, cmp.Or(q.Dimensions, dimensions)); {
		case kind == "pooling":
			one.Data = v
		case q.Encoding == "base64":
			one.Embedding = base64.StdEncoding.EncodeToString(floatBytes(v))
		default:
			one.Embedding = v
		}
		data = append(data, one)
	}
	id := "embd-"
	if kind == "pooling" {
		id = "pool-"
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": id + program.HexText(8), "object": "list",
		"created": time.Now().Unix(), "model": s.answering(q.Model), "data": data, "usage": tokensUsed(total, 0)})
	return nil
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) *refusal {
	return s.embed(w, r, "embedding")
}

func (s *Server) pooling(w http.ResponseWriter, r *http.Request) *refusal {
	return s.embed(w, r, "pooling")
}

// vector is a unit vector that is always the same for the same tokens.
func vector(tokens []int, n int) []float32 {
	seed := knobs.HashTokens(0, tokens)
	v, sum := make([]float32, n), 0.0
	for i := range v {
		x := 2*knobs.Unit(seed, uint64(i)) - 1
		v[i], sum = float32(x), sum+x*x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func floatBytes(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// texts is one text or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// pairs are the prompts that compare texts: one with each of several, or each with its own.
func (s *Server) pairs(left, right texts) ([][]int, *refusal) {
	switch {
	case len(left) == 0 || len(right) == 0:
		return nil, bad("", "At least one text element must be given")
	case len(left) > 1 && len(left) != len(right):
		return nil, bad("", "Input lengths must be either 1:1, 1:N or N:N")
	}
	var list [][]int
	for i, text := range right {
		one := left[min(i, len(left)-1)]
		list = append(list, slices.Concat(s.engine.tokens.encode(one), s.engine.tokens.encode(text)))
	}
	return list, nil
}

// compare scores pairs, and returns the number of their tokens.
func (s *Server) compare(r *http.Request, model string, left, right texts) ([]float64, int, *refusal) {
	if refused := s.checkModel(model); refused != nil {
		return nil, 0, refused
	}
	list, refused := s.pairs(left, right)
	if refused == nil {
		refused = s.pool(r.Context(), list)
	}
	if refused != nil {
		return nil, 0, refused
	}
	var scores []float64
	total := 0
	for _, p := range list {
		scores, total = append(scores, knobs.Unit(knobs.HashTokens(0, p), 0)), total+len(p)
	}
	return scores, total, nil
}

func (s *Server) score(w http.ResponseWriter, r *http.Request) *refusal {
	var q struct {
		Model     string `json:"model"`
		Text1     texts  `json:"text_1"`
		Text2     texts  `json:"text_2"`
		Queries   texts  `json:"queries"`
		Documents texts  `json:"documents"`
		Items     texts  `json:"items"`
		Data1     texts  `json:"data_1"`
		Data2     texts  `json:"data_2"`
	}
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	scores, total, refused := s.compare(r, q.Model, slices.Concat(q.Text1, q.Queries, q.Data1),
		slices.Concat(q.Text2, q.Documents, q.Items, q.Data2))
	if refused != nil {
		return refused
	}
	data := []map[string]any{}
	for i, x := range scores {
		data = append(data, map[string]any{"index": i, "object": "score", "score": x})
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": "embd-" + program.HexText(8), "object": "list",
		"created": time.Now().Unix(), "model": s.answering(q.Model), "data": data, "usage": tokensUsed(total, 0)})
	return nil
}

func (s *Server) rerank(w http.ResponseWriter, r *http.Request) *refusal {
	var q struct {
		Model     string `json:"model"`
		Query     string `json:"query"`
		Documents texts  `json:"documents"`
		TopN      int    `json:"top_n"`
	}
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	scores, total, refused := s.compare(r, q.Model, texts{q.Query}, q.Documents)
	if refused != nil {
		return refused
	}
	type result struct {
		Index    int            `json:"index"`
		Document map[string]any `json:"document"`
		Score    float64        `json:"relevance_score"`
	}
	results := []result{}
	for i, x := range scores {
		results = append(results, result{i, map[string]any{"text": q.Documents[i], "multi_modal": nil}, x})
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.Score, a.Score) })
	if q.TopN > 0 {
		results = results[:min(q.TopN, len(results))]
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": "rerank-" + program.HexText(8), "model": s.answering(q.Model),
		"usage": map[string]int{"prompt_tokens": total, "total_tokens": total}, "results": results})
	return nil
}

func decimal(n int) string { return strconv.Itoa(n) }
