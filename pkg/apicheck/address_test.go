package apicheck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithPort(t *testing.T) {
	for _, c := range []struct {
		host string
		port int
		want string
	}{
		{"http://127.0.0.1", 0, "http://127.0.0.1:8000"},
		{"http://127.0.0.1", 9, "http://127.0.0.1:9"},
		{"http://127.0.0.1/", 9, "http://127.0.0.1:9"},
		{"node1", 0, "http://node1:8000"},
		{"node1", 80, "http://node1:80"},
		{"node1:9", 0, "http://node1:9"},
		{"[::1]", 9, "http://[::1]:9"},
		{"http://h/plain", 9, "http://h:9/plain"},
		{"http://h:9/plain", 9, "http://h:9/plain"},
		{"http://h:9/plain/v1", 0, "http://h:9/plain"},
		{"https://h/api", 0, "https://h/api"},
		{"https://h/api", 443, "https://h:443/api"},
	} {
		got, err := WithPort(c.host, c.port)
		require.NoError(t, err, c.host)
		require.Equal(t, c.want, got, c.host)
	}
	for host, want := range map[string]string{"http://h:9": "has the port 9, but the port 10 is named too", "": "not the address",
		"http://h?x": "no query"} {
		_, err := WithPort(host, 10)
		require.ErrorContains(t, err, want)
	}
	_, err := WithPort("h", 70000)
	require.ErrorContains(t, err, "between 1 and 65535")
}
