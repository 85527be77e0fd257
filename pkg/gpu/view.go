package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shown are the devices of a view. A nil view shows all.
func shown(view []Shown, devices []Device) []Device {
	if view == nil {
		return devices
	}
	var list []Device
	for _, v := range view {
		for _, d := range devices {
			if d.UUID == v.UUID {
				d.Index = v.Index
				list = append(list, d)
			}
		}
	}
	return list
}

// shownSamples are the samples of a view's devices.
func shownSamples(view []Shown, samples []Sample) []Sample {
	if view == nil {
		return samples
	}
	var list []Sample
	for _, v := range view {
		for _, s := range samples {
			if s.UUID == v.UUID {
				s.Index = v.Index
				list = append(list, s)
			}
		}
	}
	return list
}

// Allowed are the devices that an environment leaves to its programs: those of
// CUDA_VISIBLE_DEVICES, else those that Slurm gave to the job. Where Slurm hides the other
// devices it numbers its own anew, so that the numbers in SLURM_JOB_GPUS mean nothing.
func Allowed(devices []Device, environ func(string) (string, bool)) ([]Device, error) {
	const visible = "CUDA_VISIBLE_DEVICES"
	if text, ok := environ(visible); ok {
		list, err := named(devices, text)
		if err != nil {
			err = fmt.Errorf("%s is %q, but %w", visible, text, err)
		}
		return list, err
	}
	for _, name := range []string{"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"} {
		text, _ := environ(name)
		if list, err := named(devices, text); err == nil && len(list) > 0 {
			return list, nil
		}
	}
	return devices, nil
}

// named are the devices of a list of numbers and UUIDs, or of beginnings of UUIDs. As CUDA does, it
// stops at a number below zero.
func named(devices []Device, text string) (list []Device, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		n, notNumber := strconv.Atoi(word)
		if word == "" || word == "NoDevFiles" || notNumber == nil && n < 0 {
			break
		}
		i := slices.IndexFunc(devices, func(d Device) bool {
			return notNumber == nil && d.Index == n || notNumber != nil && strings.HasPrefix(d.UUID, word)
		})
		if i < 0 {
			return nil, fmt.Errorf("there is no GPU %s here", word)
		}
		if slices.ContainsFunc(list, func(d Device) bool { return d.UUID == devices[i].UUID }) {
			return nil, fmt.Errorf("GPU %s is named twice", word)
		}
		list = append(list, devices[i])
	}
	return list, nil
}
