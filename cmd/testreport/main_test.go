package main

import (
	"strings"
	"testing"

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
{"Action":"pass","Package":"github.com/profllm/profllm/pkg/a"}
what a process of a test prints
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/b","Test":"TestThree"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/b","Test":"TestFour"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/b"}
{"Action":"skip","Package":"github.com/profllm/profllm/pkg/empty"}
{"ImportPath":"github.com/profllm/profllm/pkg/c","Action":"build-fail"}
{"Action":"fail","Package":"github.com/profllm/profllm/pkg/c","FailedBuild":"github.com/profllm/profllm/pkg/c"}
`

func TestSum(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Sum(strings.NewReader(events), &out))
	require.Equal(t, `skipped 1: no reason given
    pkg/b: TestThree
skipped 2: no GPU here: exec: "nvidia-smi"
    pkg/a: TestOne TestTwo/part
1 passed, 2 failed, 3 skipped
`, out.String())
}
