package softnic

// OwnMemory is the memory of this process, for tests that stand for another.
func OwnMemory() Memory { return ownMemory{} }

// StartPDs has the numbers of protection domains go on with one.
func (n *NIC) StartPDs(number uint32) { n.nextPDN = number }
