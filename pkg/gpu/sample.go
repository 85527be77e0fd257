package gpu

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/textlines"
)

// Sample is what one GPU did at one moment. What the driver does not say is nil.
type Sample struct {
	Time    time.Time // to the millisecond
	Index   int       // in the order of the PCI bus
	UUID    string
	Use     *float64 // percent of the last moment in which a kernel ran
	Memory  *float64 // in use, MiB
	Power   *float64 // W; NVML and nvidia-smi give the mean of the last second from Ampere on
	Energy  *float64 // mJ since the driver was loaded; nvidia-smi has none
	SM      *float64 // clock, MHz
	Mem     *float64 // clock of the memory, MHz
	Temp    *float64 // °C
	Reasons *Reasons // why the clocks are not higher
}

// Reasons are the bits of NVML's clocks event reasons (nvml.h), called clocks
// throttle reasons before driver 535.
type Reasons uint64

// The reasons that we name.
const (
	Idle            Reasons = 0x01 // nothing runs
	SWPowerCap      Reasons = 0x04 // held below the power limit that is set
	HWSlowdown      Reasons = 0x08 // clocks at half or less: heat, power brake, or a draw that rose too fast
	SWThermal       Reasons = 0x20 // GPU or memory would get too hot
	HWThermal       Reasons = 0x40 // clocks at half or less, because of heat
	HWPowerBrake    Reasons = 0x80 // clocks at half or less, because the power supply says so
	slowdownReasons         = HWSlowdown | SWThermal | HWThermal | HWPowerBrake
)

// Slowed reports whether something is wrong: heat, or a lack of power. A GPU at the
// power limit that is set for it is at work as it should be; so is one with clocks
// that somebody has set, or with nothing to do.
func (r Reasons) Slowed() bool { return r&slowdownReasons != 0 }

// Names are the reasons of Slowed, in words.
func (r Reasons) Names() []string {
	var names []string
	for _, x := range []struct {
		bit  Reasons
		name string
	}{{HWSlowdown, "hw-slowdown"}, {SWThermal, "sw-thermal"}, {HWThermal, "hw-thermal"},
		{HWPowerBrake, "hw-power-brake"}} {
		if r&x.bit != 0 {
			names = append(names, x.name)
		}
	}
	return names
}

// Header is the first line of a file of samples.
const Header = "time_ms,index,uuid,use_percent,memory_mib,power_w,energy_mj,sm_mhz,mem_mhz,temp_c,reasons\n"

const columns = 11

// numbers are the fields of a sample that are numbers, in the order of the columns
// from use_percent on.
func (s *Sample) numbers() []**float64 {
	return []**float64{&s.Use, &s.Memory, &s.Power, &s.Energy, &s.SM, &s.Mem, &s.Temp}
}

// Append adds the sample as one line; an absent number is an empty field.
func (s Sample) Append(b []byte) []byte {
	b = strconv.AppendInt(b, s.Time.UnixMilli(), 10)
	b = append(strconv.AppendInt(append(b, ','), int64(s.Index), 10), ',')
	b = append(b, strings.Map(plain, s.UUID)...)
	for _, v := range s.numbers() {
		b = append(b, ',')
		if *v != nil {
			b = strconv.AppendFloat(b, **v, 'f', -1, 64)
		}
	}
	b = append(b, ',')
	if s.Reasons != nil {
		b = strconv.AppendUint(append(b, "0x"...), uint64(*s.Reasons), 16)
	}
	return append(b, '\n')
}

// plain leaves out what would end a field.
func plain(r rune) rune {
	if r == ',' || r < ' ' {
		return -1
	}
	return r
}

const (
	longestLine = 1 << 10
	longestUUID = 100
	mostGPUs    = 1 << 10 // of a node
	mostNumber  = 1e15
)

// Read hands over the samples of a file, in its order. A last line without its end
// was cut short by a crash and is left out. So are lines that nobody understands,
// but then the error at the end says which was the first.
func Read(r io.Reader, each func(Sample)) error {
	return textlines.Each(r, longestLine, func(line string) error {
		if line+"\n" == Header {
			return nil
		}
		s, err := parseLine(line)
		if err == nil {
			each(s)
		}
		return err
	})
}

func parseLine(line string) (Sample, error) {
	f := strings.Split(line, ",")
	if len(f) != columns {
		return Sample{}, fmt.Errorf("%d fields instead of %d", len(f), columns)
	}
	ms, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || ms < 0 || ms > mostNumber {
		return Sample{}, fmt.Errorf("time_ms %q is not a time", f[0])
	}
	if len(f[2]) > longestUUID || strings.ContainsFunc(f[2], func(r rune) bool { return r < ' ' || r > '~' }) {
		return Sample{}, fmt.Errorf("uuid %.40q is invalid", f[2])
	}
	s := Sample{Time: time.UnixMilli(ms).UTC(), UUID: f[2]}
	if s.Index, err = strconv.Atoi(f[1]); err != nil || s.Index < 0 || s.Index >= mostGPUs {
		return Sample{}, fmt.Errorf("index %q is not a GPU", f[1])
	}
	for i, into := range s.numbers() {
		if *into, err = parseNumber(f[3+i]); err != nil {
			return Sample{}, fmt.Errorf("%s: %w", strings.Split(Header, ",")[3+i], err)
		}
	}
	if f[columns-1] != "" {
		if s.Reasons, err = parseReasons(f[columns-1]); err != nil {
			return Sample{}, err
		}
	}
	return s, nil
}

// parseNumber reads a number, nil for none.
func parseNumber(text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= mostNumber) {
		return nil, fmt.Errorf("%q is not a number from 0 to %g", text, float64(mostNumber))
	}
	return new(math.Abs(v)), nil // no -0
}

func parseReasons(text string) (*Reasons, error) {
	hex, ok := strings.CutPrefix(text, "0x")
	v, err := strconv.ParseUint(hex, 16, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("reasons %q are not bits, such as 0x4", text)
	}
	return new(Reasons(v)), nil
}
