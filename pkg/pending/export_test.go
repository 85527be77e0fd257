package pending

// Names are the reasons of a class.
func Names(class Class) []string { return reasons[class] }
