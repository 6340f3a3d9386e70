//go:build race

package softnic

const raceDetector = true
