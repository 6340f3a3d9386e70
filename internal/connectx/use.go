package connectx

import "github.com/farwire/farwire/internal/ifc"

// use is how far a driver has come in taking the device into use (Linux mlx5_core
// main.c, mlx5_function_setup).
type use uint8

const (
	useNone        use = iota
	useEnabled         // ENABLE_HCA: limits may be asked for and set
	useInitialized     // INIT_HCA: there may be objects
)

// needs are the commands for which a driver need not have come as far as INIT_HCA.
var needs = map[ifc.Opcode]use{
	ifc.NOP: useNone, ifc.EnableDevice: useNone, ifc.DisableDevice: useNone,
	ifc.InitDevice: useEnabled, ifc.TeardownDevice: useEnabled,
	ifc.QueryISSI: useEnabled, ifc.SetISSI: useEnabled, ifc.QueryPages: useEnabled, ifc.ManagePages: useEnabled,
	ifc.QueryCapabilities: useEnabled, ifc.SetCapabilities: useEnabled, ifc.AccessRegister: useEnabled, ifc.QueryAdapter: useEnabled,
}

// mayUse refuses a command that comes too early.
func (d *Device) mayUse(op ifc.Opcode) error {
	need, early := needs[op]
	switch {
	case !early && d.use < useInitialized:
		return refuse(ifc.BadSystemState, "the device is not initialized")
	case d.use < need:
		return refuse(ifc.BadSystemState, "the device is not enabled")
	}
	return nil
}

// enable begins a use. One that somebody has left, such as a kernel that crashed, ends.
func (d *Device) enable(r *request) error {
	if d.use != useNone {
		d.leave(useNone)
	}
	d.use = useEnabled
	return nil
}

func (d *Device) initialize(*request) error {
	if d.use == useInitialized {
		return refuse(ifc.BadSystemState, "the device is initialized")
	}
	d.use = useInitialized
	return nil
}

func (d *Device) teardown(*request) error {
	d.leave(useEnabled)
	return nil
}

func (d *Device) disable(*request) error {
	d.leave(useNone)
	return nil
}

// leave destroys all objects, and goes back in the use of the device. The command queue stays
// where it is.
func (d *Device) leave(to use) {
	queue := d.queue
	d.restart()
	d.queue, d.use = queue, to
}
