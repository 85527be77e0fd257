package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"start","Package":"github.com/profllm/profllm/pkg/a"}
{"Action":"run","Package":"github.com/profllm/profllm/pkg/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/profllm/profllm/pkg/a","Test":"TestOne","Output":"    one_test.go:9: looked at it\n"}
{"Action":"output","Package":"github.com/profllm/profllm/pkg/a","Test":"TestOne","Output":"    one_test.go:12: no GPU here: exec: \"nvidia-smi\"\n"}
{"Action":"output","Package":"github.com/profllm/profllm/pkg/a","Test":"TestOne","Output":"--- SKIP: TestOne (0.00s)\n"}
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/profllm/profllm/pkg/a","Test":"TestTwo/part","Output":"        one_test.go:12: no GPU here: exec: \"nvidia-smi\"\n"}
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/a","Test":"TestTwo/part"}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestTwo"}
{"Action":"output","Package":"github.com/profllm/profllm/pkg/a","Test":"TestHalf","Output":"    one_test.go:12: in part: 10 of 100 rounds with -short\\n"}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestHalf","Elapsed":0.1}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestFive","Elapsed":2.5}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestParts/one","Elapsed":3}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestParts/two","Elapsed":4.4}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Test":"TestParts"}
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a","Elapsed":5}
what a process of a test prints
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/b","Test":"TestThree"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/b","Test":"TestFour"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/b"}
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/empty"}
{"ImportPath":"github.com/profllm/profllm/pkg/c","Action":"build-fail"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/c","FailedBuild":"github.com/profllm/profllm/pkg/c"}
`

func TestReport(t *testing.T) {
	var stdout, stderr strings.Builder
	proved, took := filepath.Join(t.TempDir(), "proved"), filepath.Join(t.TempDir(), "took")
	require.NoError(t, follow(strings.NewReader(events), &stdout, &stderr, options{proved: proved, took: took}))
	require.Equal(t, `skipped 1: no reason given
    pkg/b: TestThree
skipped 2: no GPU here: exec: "nvidia-smi"
    pkg/a: TestOne TestTwo/part
6 passed, 2 failed, 3 skipped
`, stdout.String())
	require.Empty(t, stderr.String())
	for file, want := range map[string]string{proved: "left pkg/a TestHalf\nleft pkg/a TestOne\nleft pkg/a TestTwo\nleft pkg/b TestFour\nleft pkg/b TestThree\n" +
		"proved pkg/a TestFive\nproved pkg/a TestParts\n", took: "pkg/a TestFive 1.2\npkg/a TestParts 3.7\n"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
}

func TestProgress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seconds")
	require.NoError(t, os.WriteFile(file, []byte("pkg/a TestFive 30\npkg/a TestTwo 60\npkg/b TestFour 10\npkg/c TestSix 100\n"), 0o644))
	left, err := readSeconds(file, strings.Fields(module+"pkg/a "+module+"pkg/b"))
	require.NoError(t, err)
	r := newReport()
	require.Equal(t, "... 20s: 0 passed, 0 failed; compiling", progress(r, left, 20*time.Second))
	for _, e := range []event{{Action: "pass", Package: module + "pkg/a", Test: "TestFive"},
		{Action: "pass", Package: module + "pkg/a", Test: "TestUnknown"}, {Action: "skip", Package: module + "pkg/b", Test: "TestFour"}} {
		r.add(e)
		left.over(e)
	}
	require.Equal(t, "... 1m20s: 2 passed, 0 failed; 40 %, about 2m0s left", progress(r, left, 80*time.Second))
	left, err = readSeconds("", nil)
	require.NoError(t, err)
	require.Equal(t, "... 1m20s: 2 passed, 0 failed", progress(r, left, 80*time.Second))
}
