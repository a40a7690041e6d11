package convert

const childRole = "OACP_TEST_CHILD"

func runChild(string) int { return 2 }
