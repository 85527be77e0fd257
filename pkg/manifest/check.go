package manifest

func check(list []object) error { return nil }
