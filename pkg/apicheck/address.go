package apicheck

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// defaultPort is where vllm serve listens unless told otherwise.
const defaultPort = "8000"

// Base returns the URL to which the paths of the API are added: of a URL, HOST:PORT or HOST,
// with or without /v1 or one of its paths at the end.
func Base(address string) (string, error) {
	text := strings.TrimSpace(address)
	bare := !strings.Contains(text, "://")
	if bare {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || strings.ContainsAny(text, " \t\n"):
		return "", fmt.Errorf("%q is not the address of a server\n\thint: write HOST:PORT, or a URL such as "+
			"http://HOST:PORT/v1", redacted(u, address))
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s: %q is not http or https", u.Redacted(), u.Scheme)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%s: a server's address has no query and no fragment\n\thint: end it before the %q",
			u.Redacted(), string(text[strings.IndexAny(text, "?#")]))
	}
	if bare && u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, end := range []string{modelsPath, completionsPath, chatPath, "/v1"} {
		if path, ok := strings.CutSuffix(u.Path, end); ok {
			u.Path = path
			break
		}
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u.String(), nil
}

// WithPort is the address of a server whose host and port are named apart: a port in the address of the
// host must be the same one. 0 is no port.
func WithPort(host string, port int) (string, error) {
	base, err := Base(host)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	named := strings.TrimSpace(host)
	if !strings.Contains(named, "://") {
		named = "http://" + named
	}
	own, err := url.Parse(named)
	if err != nil {
		return "", err
	}
	switch has := own.Port(); {
	case port < 0 || port > 65535:
		return "", fmt.Errorf("the port is %d, must be between 1 and 65535", port)
	case has == "" && port == 0 && own.Scheme == "https": // the port of the scheme
	case has == "":
		u.Host = net.JoinHostPort(u.Hostname(), cmp.Or(strings.TrimPrefix(strconv.Itoa(port), "0"), defaultPort))
	case port != 0 && has != strconv.Itoa(port):
		return "", fmt.Errorf("%s has the port %s, but the port %d is named too\n\thint: name one", own.Redacted(), has, port)
	}
	return u.String(), nil
}

// redacted is an address without the password that a URL may have.
func redacted(u *url.URL, address string) string {
	if u == nil {
		_, after, found := strings.Cut(address, "@")
		if found {
			return after
		}
		return address
	}
	return u.Redacted()
}
