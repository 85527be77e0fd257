package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/suite/measure"
)

// vllmClient is vLLM's load client, as its record names it.
const vllmClient = "vllm bench serve"

// clientEnd is how long a client may take to end once it is asked to.
const clientEnd = 10 * time.Second

// clientVariables are those of this shell that a client in a container is given, as far as they are
// set.
var clientVariables = []string{"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN", "OPENAI_API_KEY", "no_proxy", "NO_PROXY"}

// imageClient decides where vLLM's client runs: on this machine if it has vLLM, else in the image.
// It is the same within an allocation and without one.
func (c benchSuiteCmd) imageClient(a *app, s *measure.Session, loads []measure.Load) error {
	if path, err := exec.LookPath("vllm"); err == nil {
		a.logf("client: vllm bench serve of this machine (%s)", path)
		s.Program, s.Client = vllmClient, client.Command(strings.Fields(vllmClient),
			client.Stop{Signal: os.Interrupt, Wait: clientEnd})
		return nil
	}
	runtime, err := c.runtime()
	if err != nil {
		return fail(exitUsage, err)
	}
	a.logf("client: vllm bench serve in %s, run by %s; this machine has no vllm", c.Image, runtime)
	s.Program = vllmClient + " in " + c.Image
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	box := plan.Container{Image: c.Image, Mounts: c.mounts(a, s, loads), Binary: binary, Dir: s.Dir}
	for _, name := range clientVariables {
		if a.env(name) != "" {
			box.Env = append(box.Env, name)
		}
	}
	launcher, _, _ := catalog.Find(catalog.Launchers, runtime) // each of job.Runtimes is one
	contained := func(args []string) ([]string, error) {
		argv := append(strings.Fields(vllmClient), args...)
		// The name is the container's, and several of these commands may share an allocation.
		step := plan.Step{Name: fmt.Sprintf("bench-%d", os.Getpid()), Container: true, Argv: plan.Texts(argv...)}
		step, err := launcher().Wrap(step, box)
		if err != nil {
			return nil, err
		}
		return literal(step.Argv, binary)
	}
	if _, err := contained(nil); err != nil { // such as an image that the runtime cannot run
		return fail(exitUsage, fmt.Errorf("--image: %w", err))
	}
	s.Client = func(ctx context.Context, args []string, out io.Writer) error {
		words, err := contained(args)
		if err != nil {
			return err
		}
		return client.Command(words, client.Stop{Signal: syscall.SIGTERM, Wait: clientEnd})(ctx, nil, out)
	}
	return nil
}

// runtime is the program that runs the image: the one that is asked for, or the first that is here.
func (c benchSuiteCmd) runtime() (string, error) {
	if c.Runtime != "" {
		return c.Runtime, nil
	}
	for _, name := range job.Runtimes {
		if _, err := exec.LookPath(name); err == nil {
			return name, nil
		}
	}
	return "", errors.New("this machine has neither vllm nor a program that runs images: " + strings.Join(job.Runtimes, ", ") +
		"\n\thint: install one, or leave --image out: profllm's own client needs no vllm")
}

// mounts are the folders that a client needs at their own paths: that of the results, those of data
// sets, those of a model and a tokenizer that are no names, and the cache of models.
func (c benchSuiteCmd) mounts(a *app, s *measure.Session, loads []measure.Load) []string {
	folders, mounts := []string{s.Dir}, []string(nil)
	add := func(dir string) bool {
		st, err := os.Stat(dir)
		found := filepath.IsAbs(dir) && err == nil && st.IsDir()
		if found {
			folders = append(folders, dir)
		}
		return found
	}
	add(s.Model)
	for i := range loads {
		if file, ok := loads[i].Arguments.Get("dataset_path").Text(); ok && filepath.IsAbs(file) {
			folders = append(folders, filepath.Dir(file))
		}
		tokenizer, _ := loads[i].Arguments.Get("tokenizer").Text()
		add(tokenizer)
	}
	add(a.env("HF_HUB_CACHE"))
	cache := a.env("HF_HOME")
	if cache == "" {
		cache = filepath.Join(a.env("HOME"), ".cache", "huggingface")
	}
	if add(cache) && a.env("HF_HOME") == "" {
		mounts = append(mounts, cache+":/root/.cache/huggingface") // nothing tells the client where it is
	}
	slices.Sort(folders)
	for _, dir := range slices.Compact(folders) {
		mounts = append(mounts, dir+":"+dir)
	}
	return mounts
}

// literal are the words of a command outside of a job, where only profllm itself is no plain text.
func literal(words []plan.Word, self string) ([]string, error) {
	var texts []string
	for _, w := range words {
		text, ok := w.Literal()
		if len(w) == 1 && w[0].Self {
			text, ok = self, true
		}
		if !ok {
			return nil, fmt.Errorf("%s is known in a job only", w)
		}
		texts = append(texts, text)
	}
	return texts, nil
}
