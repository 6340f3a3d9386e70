// Package interop tests Farwire under libraries that the module itself does not depend
// on. It is a module of its own, so that users of Farwire do not inherit them.
package interop
