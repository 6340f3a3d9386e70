package softnic

// OwnMemory is the memory of this process, for tests that stand for another.
func OwnMemory() Memory { return ownMemory{} }
