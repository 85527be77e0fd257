package validity

// Agreement is what the files of one run say of the same things.
type Agreement struct {
	Compared int      // facts that two files have
	Bad      []string // those that differ, with both values
}

func filesMixed(c *facts) answer {
	switch a := c.e.Executions; {
	case len(a.Bad) > 0:
		return fail("%s", list(a.Bad))
	case a.Compared == 0:
		return notPossible("no two files say which job they are of, or when it ran")
	default:
		return pass("the files agree on the job and its times (%d compared)", a.Compared)
	}
}

func placedOtherwise(c *facts) answer {
	switch a := c.e.Places; {
	case len(a.Bad) > 0:
		return fail("%s", list(a.Bad))
	case a.Compared == 0:
		return notPossible("where the run was placed was not recorded")
	default:
		return pass("plan, placement and preflight agree on nodes and GPUs (%d compared)", a.Compared)
	}
}
