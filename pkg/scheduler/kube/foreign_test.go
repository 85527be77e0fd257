package kube

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A log that is read again from its beginning has nothing new, whatever times it says.
func FuzzLogAgain(f *testing.F) {
	f.Add([]byte("2026-11-26T12:00:01.5Z one\n2026-11-26T12:00:02Z two\n2026-11-26T12:00:02Z two\n"))
	f.Add([]byte("2026-11-26T12:00:02Z later\n2026-11-26T12:00:01Z earlier\r\nnone\n\n2026-11-26T12:00:02Z"))
	f.Add([]byte("0001-01-01T00:00:00Z the first time of all"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := bytes.Count(data, []byte("\n")) + 1
		s := &stream{follower: &follower{lines: make(chan Line, 2*n)}}
		_ = s.take(t.Context(), bytes.NewReader(data), true)
		had := len(s.lines)
		require.LessOrEqual(t, had, n)
		_ = s.take(t.Context(), bytes.NewReader(data), true)
		require.Len(t, s.lines, had)
	})
}

// Only an answer that says no denies a right.
func FuzzDenied(f *testing.F) {
	asked := []right{{"create", "jobs.batch"}, {"get", "pods/log"}}
	f.Add([]byte(`{"status": {"allowed": false}} {"status": {"allowed": true}}`))
	f.Add([]byte(`{"status": {"allowed": false, "evaluationError": "webhook"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		denied, err := deniedOf(data, asked)
		if err != nil || len(denied) == 0 {
			return
		}
		require.Subset(t, asked, denied)
		require.Contains(t, string(data), "false")
		require.NotEmpty(t, lacking(Place{Namespace: "n"}, denied).Error())
	})
}

// What an API server says of rights, quotas and limits is read, and anything else is passed on.
func TestPolicyWords(t *testing.T) {
	r, ok := deniedBy(`pods "x" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "b"`)
	require.True(t, ok)
	require.Equal(t, right{"get", "pods/log"}, r)
	r, ok = deniedBy(`User "u" cannot create resource "dynamographdeployments" in API group "nvidia.com" in the namespace "b"`)
	require.True(t, ok)
	require.Equal(t, right{"create", "dynamographdeployments.nvidia.com"}, r)
	_, ok = deniedBy("exceeded quota")
	require.False(t, ok)

	const exceeded = "Error creating: pods \"x\" is forbidden: exceeded quota: q, "
	for text, may := range map[string]bool{
		exceeded + "requested: pods=1,requests.nvidia.com/gpu=8, used: pods=3,requests.nvidia.com/gpu=8, limited: pods=9,requests.nvidia.com/gpu=8": true,
		exceeded + "requested: pods=1,requests.nvidia.com/gpu=8, used: pods=3,requests.nvidia.com/gpu=0, limited: pods=9,requests.nvidia.com/gpu=4": false,
		exceeded + "requested: requests.memory=16Gi, used: requests.memory=0, limited: requests.memory=8Gi":                                         false,
		exceeded + "requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1":                                                    true,
		"Error creating: Pod \"x\" is invalid": false,
	} {
		require.Equal(t, may, quotaMayBeFreed(text), text)
	}
	for said, want := range map[string]string{
		`pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 4`:                             "a limit range",
		`pods "x" is forbidden: failed quota: q: must specify requests.cpu for: main`:                             "wants requests or limits",
		`The jobs "x" is invalid: : ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no`:            "a policy of the cluster",
		`jobs.batch "x" is forbidden: unable to create new content in namespace b because it is being terminated`: "is being deleted",
	} {
		text, hint, ok := policy(said, "b")
		require.True(t, ok, said)
		require.Contains(t, text, want)
		require.NotEmpty(t, hint)
	}
	_, _, ok = policy(`Job in version "v1" cannot be handled as a Job: strict decoding error: unknown field`, "b")
	require.False(t, ok)
}
