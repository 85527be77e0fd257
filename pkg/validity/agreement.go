package validity

// Agreement is what the files of one run say about the same facts.
type Agreement struct {
	Compared int      // facts that two files have
	Bad      []string // those that differ, with both values
}

func filesMixed(c *facts) answer {
	switch a := c.e.Executions; {
	case len(a.Bad) > 0:
		return fail("%s", list(a.Bad))
	case a.Compared == 0:
		return notPossible("fewer than two files name their job or its times")
	default:
		return pass("the files agree on the job and its times (%d compared)", a.Compared)
	}
}

func placedOtherwise(c *facts) answer {
	switch a := c.e.Places; {
	case len(a.Bad) > 0:
		return fail("%s", list(a.Bad))
	case a.Compared == 0:
		return notPossible("the placement of the run was not recorded")
	default:
		return pass("plan, placement and preflight agree on nodes and GPUs (%d compared)", a.Compared)
	}
}
