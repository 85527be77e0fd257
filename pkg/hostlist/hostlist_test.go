package hostlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: C.3, CD-1
func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"node-[001-003,007],x1":       "node-001 node-002 node-003 node-007 x1",
		"n[08-10]":                    "n08 n09 n10",
		"n[8-10]":                     "n8 n9 n10", // Slurm's padding, not CloudAI's
		"n[099-100],n[9-010]":         "n099 n100 n9 n10",
		"":                            "",
		" , ":                         "",
		"a, b":                        "a b",
		"a ,b\tc\nd":                  "a b c d",
		"n[1-2]-ib":                   "n1-ib n2-ib",
		"rack[1-2]n[1-2]":             "rack1n1 rack1n2 rack2n1 rack2n2",
		"gpu-[1-2]x[3-4]-ib":          "gpu-1x3-ib gpu-1x4-ib gpu-2x3-ib gpu-2x4-ib",
		"a[1-2]b[3-4]c[5-6]":          "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6", // Slurm's order
		"a[1-2][03-04]":               "a103 a104 a203 a204",
		"127.0.1.[1-2]":               "127.0.1.1 127.0.1.2",
		"n2,n1,n2":                    "n2 n1 n2",
		"n[1,1,3-4]":                  "n1 n1 n3 n4",
		"[1-3]":                       "1 2 3",
		"n[18446744073709551614]":     "n18446744073709551614",
		"n[0000000000000000000000-1]": "n0000000000000000000000 n0000000000000000000001",
	} {
		got, err := Expand(list)
		require.NoError(t, err, list)
		require.Equal(t, want, strings.Join(got, " "), list)
	}
}

// covers: CD-1
func TestExpandRefuses(t *testing.T) {
	for list, want := range map[string]string{
		"n[1-":                      `host list "n[1-": "[1-" has no closing bracket`,
		"n[1-3,x":                   `"[1-3,x" has no closing bracket`,
		"n[-1]":                     `"" is not a number of a host range`,
		"n[1-]":                     `"" is not a number of a host range`,
		"n[]":                       `"" is not a number of a host range`,
		"n[ 1-2]":                   `" 1" is not a number of a host range`,
		"n[0-10/2]":                 `"10/2" is not a number of a host range`, // no steps in Slurm 22.05
		"n[+1]":                     `"+1" is not a number of a host range`,
		"n[a]":                      `"a" is not a number of a host range`,
		"n[[1-2]]":                  `"[1" is not a number of a host range`,
		"n[3-1]":                    `range "3-1" runs backwards`,
		"n]1":                       `']' cannot stand in a host name`,
		"n[1-2]]":                   `']' cannot stand in a host name`,
		"$(x)":                      `'$' cannot stand in a host name`,
		"main:g:2":                  `':' cannot stand in a host name`,
		"n{1,2}":                    `'{' cannot stand in a host name`,
		"n\x00":                     `'\x00' cannot stand in a host name`,
		"n[1-999999]":               `range "1-999999": more than 65536 hosts`,
		"n[0-18446744073709551614]": `range "0-18446744073709551614": more than 65536 hosts`,
		"n[18446744073709551614-18446744073709551615]": `"18446744073709551615" is too large for a host range`,
		"n18446744073709551615":                        `above 18446744073709551614, the largest that Slurm can count`,
		"n[1-300]x[1-300]":                             "more than 65536 hosts",
		"n[1-40000],m[1-40000]":                        "more than 65536 hosts",
		"n[1-65536],m":                                 "more than 65536 hosts",
		strings.Repeat("n", maxName) + "[1]":           "is longer than 255 bytes",
		strings.Repeat("n[1]", 200):                    "is longer than 255 bytes",
		"n[" + strings.Repeat("0", 300) + "]":          "is too large for a host range",
	} {
		_, err := Expand(list)
		require.ErrorContains(t, err, want, list)
	}
	hosts, err := Expand(fmt.Sprintf("n[1-%d]", maxHosts))
	require.NoError(t, err)
	require.Len(t, hosts, maxHosts)
}

// covers: C.3
func TestFormat(t *testing.T) {
	for hosts, want := range map[string]string{
		"n1 n2 n3":            "n[1-3]",
		"n3 n1 n2":            "n[3,1-2]",
		"n1 n1 n2":            "n[1,1-2]",
		"n08 n09 n10":         "n[08-10]",
		"n9 n10 n011":         "n[9-10,011]",
		"n099 n100":           "n[099-100]",
		"n1 m1 n2":            "n1,m1,n2",
		"r1n1 r1n2 r2n1 r2n2": "r1n[1-2],r2n[1-2]",
		"a":                   "a",
		"a a":                 "a,a",
		"n1-ib n2-ib x":       "n1-ib,n2-ib,x", // Slurm reads no bracket that text follows
		"":                    "",
		"n18446744073709551613 n18446744073709551614": "n[18446744073709551613-18446744073709551614]",
	} {
		require.Equal(t, want, Format(strings.Fields(hosts)), hosts)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"n[1-3],n5", "a[01-03]b[1-2]-ib", "x", "n[9-10,011]", "n0000000000",
		"a[1-2]b[3]c[5-6] d", "[1-2],n18446744073709551614"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Expand(list)
		if err != nil || len(hosts) > 5000 {
			return
		}
		again, err := Expand(Format(hosts))
		require.NoError(t, err, Format(hosts))
		require.Equal(t, hosts, again)
	})
}

// 4,608 nodes, as a large cluster names them.
func BenchmarkExpand(b *testing.B) {
	for b.Loop() {
		if hosts, err := Expand("r[01-48]c[1-8]n[01-12]"); err != nil || len(hosts) != 4608 {
			b.Fatal(len(hosts), err)
		}
	}
}
