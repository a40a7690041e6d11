package bridge

var platformChildren map[string]func([]string) error
