package gpu

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func read(text string) (list []Sample, err error) {
	err = Read(strings.NewReader(text), func(s Sample) { list = append(list, s) })
	return list, err
}

var full = Sample{
	Time: time.UnixMilli(1_795_000_000_123).UTC(), Index: 3, UUID: "GPU-aaaa",
	Use: new(97.0), Memory: new(70123.0), Power: new(689.25), Energy: new(123456789012.0),
	SM: new(1980.0), Mem: new(2619.0), Temp: new(61.0), Reasons: new(SWPowerCap),
}

// covers: PL-V26, PL-V27, PL-V33
func TestSampleLines(t *testing.T) {
	require.Equal(t, "1795000000123,3,GPU-aaaa,97,70123,689.25,123456789012,1980,2619,61,0x4\n",
		string(full.Append(nil)))
	little := Sample{Time: full.Time, Index: 0, UUID: "GPU-bbbb"}
	require.Equal(t, "1795000000123,0,GPU-bbbb,,,,,,,,\n", string(little.Append(nil)))
	list, err := read(Header + string(little.Append(full.Append(nil))))
	require.NoError(t, err)
	require.Equal(t, []Sample{full, little}, list)

	odd := Sample{Time: full.Time, UUID: "a,b\nc"}
	require.Equal(t, "1795000000123,0,abc,,,,,,,,\n", string(odd.Append(nil)))
}

// A writer that was killed leaves half a line, and one that is started again a second
// header.
func TestSamplesOfACrash(t *testing.T) {
	line := string(full.Append(nil))
	for cut := range len(line) {
		list, err := read(Header + line + line[:cut])
		require.NoError(t, err)
		require.Len(t, list, 1)
	}
	list, err := read(Header + line + Header + line)
	require.NoError(t, err)
	require.Len(t, list, 2)
}

func TestSampleComplaints(t *testing.T) {
	line := string(full.Append(nil))
	for text, want := range map[string]string{
		"what\n":                                      "line 2: 1 fields instead of 11",
		strings.Replace(line, "17", "x", 1):           `time_ms "x95000000123" is not a time`,
		strings.Replace(line, ",3,", ",-3,", 1):       `index "-3" is not a GPU`,
		strings.Replace(line, ",97,", ",NaN,", 1):     `use_percent: "NaN" is not a number`,
		strings.Replace(line, "689.25", "-1", 1):      `power_w: "-1" is not a number`,
		strings.Replace(line, "61,", "1e300,", 1):     `temp_c: "1e300" is not a number`,
		strings.Replace(line, "0x4", "4", 1):          `reasons "4" are not bits`,
		strings.Repeat("x", 3*longestLine) + "\n":     "longer than 1024 bytes",
		strings.Repeat("x,", 100) + "\n" + "again\n":  "fields instead of 11; 2 lines in all were left out",
		strings.Replace(line, ",3,", ",70000000,", 1): "is not a GPU",
	} {
		list, err := read(Header + text + line)
		require.ErrorContains(t, err, want)
		require.Equal(t, []Sample{full}, list, "the others are read")
	}
	_, err := read(strings.Repeat("x", 3*longestLine))
	require.NoError(t, err, "a long line that was cut short")
}

// covers: PL-V27
func TestSlowed(t *testing.T) {
	for bits, want := range map[Reasons]string{
		0: "", Idle: "", 0x2: "", SWPowerCap: "", 0x10: "", 0x100: "", Idle | SWPowerCap: "",
		HWSlowdown: "hw-slowdown", SWThermal: "sw-thermal", HWThermal | HWSlowdown: "hw-slowdown hw-thermal",
		HWPowerBrake | SWPowerCap: "hw-power-brake",
	} {
		require.Equal(t, want, strings.Join(bits.Names(), " "))
		require.Equal(t, want != "", bits.Slowed(), fmt.Sprintf("%#x", uint64(bits)))
	}
}

func FuzzSamples(f *testing.F) {
	f.Add([]byte(Header + string(full.Append(nil)) + "17950"))
	f.Add([]byte("0,0,N\xf0\xa6\xf2fd,,,,,,,,\n"))
	f.Add([]byte("1,0,,,,,,,,,\n1,0,GPU-a,1e-7,-0,0x1,,,,,0xffffffffffffffff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []Sample
		_ = Read(strings.NewReader(string(data)), func(s Sample) { list = append(list, s) })
		var again []byte
		for _, s := range list {
			again = s.Append(again)
		}
		same, err := read(string(again))
		require.NoError(t, err)
		require.Equal(t, list, same)
	})
}
