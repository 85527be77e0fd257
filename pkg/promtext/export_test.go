package promtext

// Samples are the samples in page order.
func (s *Snapshot) Samples() []Sample { return s.samples }
