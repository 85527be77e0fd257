package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/bench/gsm8k"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/eval"
	"github.com/profllm/profllm/pkg/httpclient"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/regular"
	standin "github.com/profllm/profllm/pkg/sim/program"
)

type evalCmd struct {
	GSM8K evalGSM8KCmd `cmd:"" name:"gsm8k" help:"Ask a running server the questions of GSM8K and print the accuracy."`
	Merge evalMergeCmd `cmd:"" help:"Put the answers of several parts together."`
}

// evalGSM8KCmd has the flags of vLLM's script, then ours.
type evalGSM8KCmd struct {
	NumShots     int      `name:"num-shots" default:"5" help:"Examples in each prompt."`
	NumQuestions int      `name:"num-questions" default:"1319" help:"Questions, the first of the test file; default: all of GSM8K."`
	MaxTokens    int      `name:"max-tokens" default:"256" help:"Most tokens of an answer."`
	Host         string   `default:"http://127.0.0.1" help:"Server: a host, or a URL, perhaps with a port and a path."`
	Port         int      `help:"Server port; default: that of --host, or 8000."`
	Temperature  *float64 `help:"Sampling temperature; default: 0, with --use-chat-completions the server's."`
	TopP         *float64 `name:"top-p" help:"Sampling: nucleus; default: the server's."`
	TopK         *int     `name:"top-k" help:"Sampling: best K; default: the server's."`
	UseChat      bool     `name:"use-chat-completions" help:"Ask in chats of one message instead of completions."`
	Model        string   `help:"Model name in chats; default: none, so the server's own."`
	Effort       *string  `name:"reasoning-effort" help:"reasoning_effort of chats."`
	Template     string   `name:"chat-template-kwargs" placeholder:"JSON" help:"chat_template_kwargs of chats."`
	Seed         int      `default:"42" help:"Seed of the sampling."`
	Concurrency  int      `name:"max-concurrency" default:"100" help:"Most requests at once."`
	Timeout      float64  `name:"request-timeout-seconds" default:"600" help:"Seconds for one request."`
	Save         string   `name:"save-results" placeholder:"FILE" help:"File for the result. The answers are kept beside it, in FILE without .json and with .answers.jsonl; the same command continues them."`

	Data     string `placeholder:"DIR" help:"Folder with train.jsonl and test.jsonl; default: the folder for temporary files, where vLLM's script keeps them, or ~/.cache/profllm/gsm8k."`
	Train    string `placeholder:"FILE" help:"Training file instead of train.jsonl."`
	Test     string `placeholder:"FILE" help:"Test file instead of test.jsonl."`
	Shard    string `placeholder:"I/N" help:"Ask only every N-th question, from the I-th; eval merge puts the parts together."`
	Prefix   string `name:"gen-prefix" placeholder:"TEXT" help:"Text behind Answer: in each prompt."`
	Insecure bool   `help:"Do not verify the server's certificate."`
}

// settings are those that the answers are kept with.
func (c *evalGSM8KCmd) settings() (eval.Settings, error) {
	s := eval.Settings{Endpoint: eval.Completions, Shots: c.NumShots, Questions: c.NumQuestions, MaxTokens: c.MaxTokens,
		Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK, Seed: &c.Seed, Prefix: c.Prefix}
	for _, n := range []struct {
		flag      string
		value, of int
	}{{"num-shots", c.NumShots, 0}, {"num-questions", c.NumQuestions, 1}, {"max-tokens", c.MaxTokens, 1},
		{"max-concurrency", c.Concurrency, 1}} {
		if n.value < n.of {
			return s, fmt.Errorf("--%s is %d, must be %d or more", n.flag, n.value, n.of)
		}
	}
	if !(c.Timeout > 0) {
		return s, fmt.Errorf("--request-timeout-seconds is %v, must be above 0", c.Timeout)
	}
	switch {
	case c.UseChat:
		s.Endpoint, s.Model, s.Effort = eval.Chat, c.Model, c.Effort
	case c.Effort != nil || c.Template != "":
		return s, errors.New("--reasoning-effort and --chat-template-kwargs need --use-chat-completions")
	case c.Temperature == nil:
		s.Temperature = new(float64)
	}
	if c.Template != "" {
		var packed bytes.Buffer
		if err := json.Compact(&packed, []byte(c.Template)); err != nil {
			return s, fmt.Errorf("--chat-template-kwargs: %w", err)
		}
		s.Template = packed.Bytes()
	}
	return s, nil
}

// Run asks the questions that have no answer yet, and scores all.
func (c evalGSM8KCmd) Run(ctx context.Context, a *app) error {
	if a.env(job.SimulatedVar) != "" {
		return c.simulate(ctx, a)
	}
	s, err := c.settings()
	if err != nil {
		return fail(exitUsage, err)
	}
	train, test, err := c.files(a)
	if err != nil {
		return fail(exitUsage, err)
	}
	address, err := apicheck.WithPort(c.Host, c.Port)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--host: %w", err))
	}
	server, err := apicheck.Open(ctx, apicheck.Options{Address: address, APIKey: a.env("OPENAI_API_KEY"),
		Insecure: c.Insecure, Timeout: time.Minute, Proxy: http.ProxyFromEnvironment})
	if err != nil {
		return err
	}
	if s.Simulated = standin.Owns(server.Owner()); s.Simulated {
		a.logf("%s", standin.Notice)
	}
	s.Served = cmp.Or(s.Model, server.Model())
	set, err := eval.Read(train, test, s)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.ask(ctx, a, set, server.Base())
}

// ask asks and saves.
func (c *evalGSM8KCmd) ask(ctx context.Context, a *app, set *eval.Set, base string) error {
	var part eval.Shard
	if c.Shard != "" {
		if err := part.UnmarshalText([]byte(c.Shard)); err != nil {
			return fail(exitUsage, fmt.Errorf("--shard: %w", err))
		}
	}
	answers := gsm8k.AnswersFile(c.Save)
	if c.Save == "" {
		dir, err := os.MkdirTemp("", "profllm-eval-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		answers = filepath.Join(dir, "answers.jsonl")
	}
	out := evalOutput(c.Save)
	if err := durable.CheckOutputs(out); err != nil {
		return fail(exitUsage, err)
	}
	if err := os.MkdirAll(filepath.Dir(answers), 0o755); err != nil {
		return err
	}
	return a.alone(ctx, leaseBeside(answers), relative(answers), func(ctx context.Context) error {
		return c.continued(ctx, a, set, part, base, answers, out)
	})
}

// leaseBeside is the folder of the lease on a file.
func leaseBeside(file string) string {
	dir, name := filepath.Split(file)
	return filepath.Join(dir, "."+name+".lease")
}

// continued asks what has no answer in a file, and saves.
func (c *evalGSM8KCmd) continued(
	ctx context.Context, a *app, set *eval.Set, part eval.Shard, base, answers string, out durable.Output,
) error {
	book, err := eval.OpenBook(answers, set, part, a.now)
	if errors.Is(err, eval.ErrOther) {
		return fail(exitUsage, fmt.Errorf("%w\n\thint: name another file with --save-results, or remove this one", err))
	}
	if err != nil {
		return err
	}
	open := len(book.Open(set, part))
	a.logf("GSM8K: %d questions, %d-shot, %d of them answered before", set.Questions, set.Shots,
		len(book.Answers)-failedOf(book))
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: c.Insecure}, MaxIdleConnsPerHost: c.Concurrency}
	err = eval.Ask(ctx, eval.Server{URL: base, APIKey: a.env("OPENAI_API_KEY"), Concurrency: c.Concurrency,
		Timeout: time.Duration(c.Timeout * float64(time.Second)), Client: httpclient.New(transport, 0),
		Progress: a.evalProgress(open)}, set, part, book)
	if err = errors.Join(err, book.Close()); err != nil {
		if c.Save != "" {
			a.logf("continue: the same command, with the answers in %s", relative(answers))
		}
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	return a.score(book, out)
}

// evalProgress prints how far the questions are, ten times.
func (a *app) evalProgress(open int) func(done, all int) {
	step := max(1, open/10)
	return func(done, all int) {
		if done%step == 0 || done == all {
			fmt.Fprintf(a.stderr, "eval: %d/%d done\n", done, all)
		}
	}
}

func failedOf(b *eval.Book) int {
	n := 0
	for _, x := range b.Answers {
		n += count(x.Error != "")
	}
	return n
}

// evalOutput is the file of the result.
func evalOutput(file string) durable.Output {
	return durable.Output{Option: "--save-results", Kind: "a result of an evaluation", MakesFolder: true, Path: file,
		Ours: func(head []byte) bool { return bytes.Contains(head, []byte(`"accuracy"`)) }}
}

// score prints the result and saves it. A request that failed makes the result invalid.
func (a *app) score(b *eval.Book, out durable.Output) error {
	r, err := b.Score(version(), a.now())
	if err != nil {
		return err
	}
	if err := r.Write(a.stdout); err != nil {
		return err
	}
	if out.Path != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = out.Write(append(data, '\n'))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "Results saved to %s\n", out.Path)
	}
	if n := r.Own.Failed; n > 0 {
		first := ""
		for _, x := range b.Answers {
			first = cmp.Or(first, x.Error)
		}
		return fail(exitInvalid, fmt.Errorf("%d of %d requests failed, such as: %s\n\thint: the same command asks them again",
			n, r.Questions, first))
	}
	return nil
}

// files reads the data set: the files that are named, or those of the first folder that has both.
func (c *evalGSM8KCmd) files(a *app) (train, test []byte, err error) {
	folders := []string{c.Data}
	if c.Data == "" {
		folders = []string{os.TempDir()}
		if home := a.env("HOME"); home != "" {
			folders = append(folders, filepath.Join(home, ".cache/profllm/gsm8k"))
		}
	}
	for _, dir := range folders {
		if err := c.trusted(dir); err != nil {
			a.logf("%v", err)
			continue
		}
		train, errTrain := regular.ReadFile(cmp.Or(c.Train, filepath.Join(dir, "train.jsonl")))
		test, errTest := regular.ReadFile(cmp.Or(c.Test, filepath.Join(dir, "test.jsonl")))
		if err = errors.Join(errTrain, errTest); err == nil {
			return train, test, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("GSM8K's train.jsonl and test.jsonl are not in %s\n\thint: get both from "+
		"github.com/openai/grade-school-math (grade_school_math/data), and name their folder with --data",
		strings.Join(folders, " or "))
}

// trusted refuses a data set that another user has put where nobody named it, such as into /tmp.
func (c *evalGSM8KCmd) trusted(dir string) error {
	if c.Data != "" {
		return nil
	}
	for _, name := range []string{"train.jsonl", "test.jsonl"} {
		if err := regular.CheckOwner(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the data set in %s is not used: %w", dir, err)
		}
	}
	return nil
}

// simulate asks the generated questions that a simulated engine can answer.
func (c *evalGSM8KCmd) simulate(ctx context.Context, a *app) error {
	host := c.Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	args := []string{"python3", "gsm8k_eval.py", "--host", host, "--port", fmt.Sprint(cmp.Or(c.Port, 8000)),
		"--num-questions", fmt.Sprint(c.NumQuestions), "--num-shots", fmt.Sprint(c.NumShots),
		"--max-tokens", fmt.Sprint(c.MaxTokens), "--seed", fmt.Sprint(c.Seed)}
	if c.Save != "" {
		args = append(args, "--save-results", c.Save)
	}
	return exit(a.simulate(ctx, args))
}

type evalMergeCmd struct {
	Answers []string `arg:"" help:"Files of answers, *.answers.jsonl, of all parts."`
	Save    string   `name:"save-results" required:"" placeholder:"FILE" help:"File for the result; all answers are kept beside it."`
}

// Run scores the answers of all parts together.
func (c evalMergeCmd) Run(a *app) error {
	var books []*eval.Book
	for _, file := range c.Answers {
		b, err := eval.ReadBook(file)
		if err != nil {
			return fail(exitUsage, err)
		}
		books = append(books, b)
	}
	all, err := eval.Merge(books)
	if err != nil {
		return fail(exitUsage, err)
	}
	if n := all.Settings.Questions; len(all.Answers) < n {
		return fail(exitUsage, fmt.Errorf("%d of %d questions have an answer\n\thint: name the answers of every part",
			len(all.Answers), n))
	}
	data, err := all.Encode()
	if err != nil {
		return err
	}
	out := evalOutput(c.Save)
	if err := durable.CheckOutputs(out); err != nil {
		return fail(exitUsage, err)
	}
	if err := os.MkdirAll(filepath.Dir(c.Save), 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(gsm8k.AnswersFile(c.Save), data, 0o644); err != nil {
		return err
	}
	return a.score(all, out)
}
