// Package records finds the records below some paths, and says of each where it was
// found, which test it is of and what was asked for. It concludes nothing from their
// numbers; package report does.
//
//	runs, err := records.Load("results/demo_2026-11-22_01-18-52")
//	for _, r := range runs {
//		fmt.Println(r.Case, r.Settings["cmd_args.model"], r.Problem)
//	}
package records
