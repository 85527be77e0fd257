package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const siteHead = "name='n'\nscheduler='slurm'\noutput_path='o'\ninstall_path='i'\ndefault_partition='main'\n"

// covers: PL-F9, P-2, U-7
func TestSignatures(t *testing.T) {
	s, err := Parse("site.toml", []byte(siteHead+`[[signatures]]
id = "site-lustre"
regex = 'LustreError: \d+'
sample = "LustreError: 11-0: scratch-OST0003"
next = "tell the storage team which OST"
`))
	require.NoError(t, err)
	require.Len(t, s.Signatures, 1)
	got := s.Signatures[0]
	require.Equal(t, "site.toml:6:3", got.Pos.String())
	got.Pos.Line, got.Pos.Col, got.Pos.File = 0, 0, ""
	require.Equal(t, Signature{
		ID: "site-lustre", Area: "site", Kind: "root", Role: "any", Regex: `LustreError: \d+`,
		Sample: "LustreError: 11-0: scratch-OST0003", Next: "tell the storage team which OST",
	}, got)

	_, err = Parse("site.toml", []byte(siteHead+`[[signatures]]
id = "a"
regex = 'x('
sample = "x"
[[signatures]]
id = "b"
regex = 'y+'
sample = "zzz"
next = "n"
nxt = "m"
`))
	require.EqualError(t, err, "site.toml:6:3: next is required\n"+
		"site.toml:8:1: signature \"a\": error parsing regexp: missing closing ): `x(`\n"+
		"site.toml:13:1: signature \"b\" does not match its sample \"zzz\"\n\thint: set sample to a line that the regex \"y+\" matches\n"+
		"site.toml:15:1: unknown key \"nxt\"\n\thint: did you mean \"next\"? known: area, id, kind, next, regex, role, sample")
}

func FuzzSignatures(f *testing.F) {
	f.Add("id = 'a'\nregex = 'x('\nsample = 'x'\nnext = 'n'\nkind = 'tail'\nrole = 'job/client'")
	f.Add("id = 1\nregex = ['x']\nsample = {}\n")
	f.Fuzz(func(t *testing.T, body string) {
		s, err := Parse("site.toml", []byte(siteHead+"[[signatures]]\n"+body))
		require.True(t, err != nil || s != nil)
	})
}
