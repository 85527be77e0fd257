package program

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// HexText returns n random bytes in hexadecimal.
func HexText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// UUID returns a random UUID, version 4.
func UUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
