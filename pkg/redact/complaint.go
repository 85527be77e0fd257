package redact

import "strings"

// Complaint is what a program complained of, without the secrets of the environment that it was given, and
// without what has the shape of one: some programs print their environment, or the request that failed.
func Complaint(text string, environ []string) string {
	if text == "" {
		return ""
	}
	var secrets []string
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && Key(name) {
			secrets = append(secrets, value)
		}
	}
	return Known(secrets...).Text(text)
}
