// Package planner expands a scenario for a site into runs, and has package plan make the
// plan of each: every test, iteration, point of a sweep and hook. It also decides the order
// of the runs and the batches in which they are submitted.
//
// It is pure: the same definitions and Options give the same plans.
package planner
