package knobs

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxGPUs is how many GPUs a simulated node may have.
const MaxGPUs = 64

// SMIFaults are what GPUs are made to say, by their index, and drivers, by host.
type SMIFaults struct {
	Use, Clock, Heat map[int]float64 // percent, MHz, share of the looks
	Driver           map[string]string
	Skip             float64 // share of the looks that are left out
}

// set reads a fault whose value is that of one GPU, or of one host.
func (f *SMIFaults) set(name, value string) error {
	if name == "skip" {
		var err error
		if f.Skip, err = parseShare(value); err != nil {
			return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
		}
		return nil
	}
	who, what, _ := strings.Cut(value, "/")
	if name == "driver" {
		if who == "" || what == "" {
			return fmt.Errorf("driver=%q: want HOST/VERSION", value)
		}
		if f.Driver == nil {
			f.Driver = map[string]string{}
		}
		f.Driver[who] = what
		return nil
	}
	index, err := strconv.Atoi(who)
	x, bad := strconv.ParseFloat(what, 64)
	most := map[string]float64{"use": 100, "clock": 1e5, "heat": 1}[name]
	if err != nil || bad != nil || index < 0 || index >= MaxGPUs || !(x >= 0 && x <= most) {
		return fmt.Errorf("%s=%q: want GPU/NUMBER, such as 0/%g, the number from 0 to %g", name, value, most/2, most)
	}
	into := map[string]*map[int]float64{"use": &f.Use, "clock": &f.Clock, "heat": &f.Heat}[name]
	if *into == nil {
		*into = map[int]float64{}
	}
	(*into)[index] = x
	return nil
}
