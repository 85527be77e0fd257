package lockfile

import "bytes"

// Sealed gives any text the first and the last line of a lock, so that a fuzzer comes
// behind the digest.
func Sealed(data []byte) []byte {
	body := append([]byte(head+"\n"), bytes.TrimPrefix(data, []byte(head))...)
	if at := bytes.LastIndex(body, []byte("\n"+digestKey)); at >= 0 {
		body = body[:at]
	}
	body = append(body, '\n')
	return append(body, digestLine(body)...)
}
