package run

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// HasPlan reports whether a directory holds a plan.
func HasPlan(dir string) bool { return found(filepath.Join(dir, PlanFile)) }

// HasIntent reports whether a directory was submitted or is about to be.
func HasIntent(dir string) bool { return found(filepath.Join(dir, IntentFile)) }

// Above is the run directory that a path lies in, as its logs or one of its loads do; else the
// path itself.
func Above(path string) string {
	const levels = 2
	for dir, i := path, 0; i <= levels; dir, i = filepath.Dir(dir), i+1 {
		if HasPlan(dir) {
			return dir
		}
	}
	return path
}

// IsPoint reports whether a directory has the place of a sweep's point: <test>/<iteration>/<step>.
func IsPoint(dir string) bool {
	number := func(path string) bool { _, err := strconv.Atoi(filepath.Base(path)); return err == nil }
	return number(dir) && number(filepath.Dir(dir))
}

// mostPoints is for how many runs of sweeps the settings are read, from a plan each.
const mostPoints = 200

// PointTexts are the settings of the runs that measure points of sweeps, by directory. They are
// nil if there are more than 200 such runs, and those of a plan that cannot be read are left
// out.
func PointTexts(dirs []string) map[string]string {
	points := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return !IsPoint(dir) })
	if len(points) > mostPoints {
		return nil
	}
	texts := make([]string, len(points))
	AtOnce(len(points), SmallFiles, func(i int) {
		if p, err := ReadPlan(points[i]); err == nil {
			texts[i] = p.PointText()
		}
	})
	of := map[string]string{}
	for i, dir := range points {
		if texts[i] != "" {
			of[dir] = texts[i]
		}
	}
	return of
}

// found reports whether a file is there, behind a link as well.
func found(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Scenarios are the directories of scenarios in a folder of results, by name.
func Scenarios(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		if root := filepath.Join(folder, e.Name()); found(filepath.Join(root, ScenarioFile)) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}
