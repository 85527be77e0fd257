package httpclient

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A redirect to another server is an error that names both, and nothing is sent there.
func TestSameOriginOnly(t *testing.T) {
	var asked []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
	}))
	defer other.Close()
	named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL+"/secret", http.StatusTemporaryRedirect)
		case "/name": // another name of the same machine may be another server
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/scheme":
			http.Redirect(w, r, "https://"+r.Host, http.StatusFound)
		}
	}))
	defer named.Close()
	for path, want := range map[string]string{
		"/same": "", "/there": "", "/loop": "more than 5 times", "/other": named.URL + "/other redirects to " + other.URL + "/secret",
		"/name": "another server", "/scheme": "another server",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			req, err := http.NewRequest(method, named.URL+path, strings.NewReader("{}"))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer key")
			resp, err := New(http.DefaultTransport, 0).Do(req)
			if want == "" {
				require.NoError(t, err, path)
				resp.Body.Close()
			} else {
				require.ErrorContains(t, err, want, path)
			}
		}
	}
	require.Empty(t, asked)
}

func TestOrigins(t *testing.T) {
	for a, b := range map[string]string{"http://h/x": "http://h:80", "https://h": "https://h:443/y", "http://[::1]:8/": "http://[::1]:8"} {
		x, err := url.Parse(a)
		require.NoError(t, err)
		y, err := url.Parse(b)
		require.NoError(t, err)
		require.Equal(t, origin(x), origin(y))
	}
}
