package interpose

func oldCalls(int) {}
