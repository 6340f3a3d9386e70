package connectx

import "github.com/farwire/farwire/internal/ifc"

// ethernetHandlers are the commands that a device with an Ethernet port has beside the
// others.
var ethernetHandlers map[ifc.Opcode]handler

func init() {
	const head = ifc.HeadSize
	ethernetHandlers = map[ifc.Opcode]handler{
		ifc.QueryPortState:     {"QUERY_VPORT_STATE", head, head, (*Device).queryPortState},
		ifc.ModifyPortState:    {"MODIFY_VPORT_STATE", head, head, nothing},
		ifc.QueryEthernetPort:  {"QUERY_NIC_VPORT_CONTEXT", head, head + ifc.EthernetPortSize, (*Device).queryEthernetPort},
		ifc.ModifyEthernetPort: {"MODIFY_NIC_VPORT_CONTEXT", ifc.EthernetPortChanged + ifc.EthernetPortSize, head, (*Device).modifyEthernetPort},
		ifc.SetRoCEAddress:     {"SET_ROCE_ADDRESS", 0x30, head, (*Device).setRoCEAddress},
		ifc.QueryPortCounter:   {"QUERY_VPORT_COUNTER", head, head, nothing},
		ifc.AllocCounter:       {"ALLOC_Q_COUNTER", head, head, makeIdle(classCounter)},
		ifc.DeallocCounter:     {"DEALLOC_Q_COUNTER", head, head, unmakeIdle(classCounter)},
		ifc.QueryCounter:       {"QUERY_Q_COUNTER", head, head, nothing},
		ifc.CreateTIR:          {"CREATE_TIR", head, head, makeIdle(classTIR)},
		ifc.ModifyTIR:          {"MODIFY_TIR", head, head, modifyIdle(classTIR)},
		ifc.DestroyTIR:         {"DESTROY_TIR", head, head, unmakeIdle(classTIR)},
		ifc.CreateTIS:          {"CREATE_TIS", head, head, makeIdle(classTIS)},
		ifc.ModifyTIS:          {"MODIFY_TIS", head, head, modifyIdle(classTIS)},
		ifc.DestroyTIS:         {"DESTROY_TIS", head, head, unmakeIdle(classTIS)},
		ifc.CreateRQT:          {"CREATE_RQT", head, head, makeIdle(classRQT)},
		ifc.ModifyRQT:          {"MODIFY_RQT", head, head, modifyIdle(classRQT)},
		ifc.DestroyRQT:         {"DESTROY_RQT", head, head, unmakeIdle(classRQT)},
		ifc.CreateRQ:           {"CREATE_RQ", head, head, makeIdle(classRQ)},
		ifc.ModifyRQ:           {"MODIFY_RQ", head, head, modifyIdle(classRQ)},
		ifc.DestroyRQ:          {"DESTROY_RQ", head, head, unmakeIdle(classRQ)},
		ifc.CreateSQ:           {"CREATE_SQ", ifc.Pages, head, (*Device).createSQ},
		ifc.ModifySQ:           {"MODIFY_SQ", ifc.Pages, head, (*Device).modifySQ},
		ifc.DestroySQ:          {"DESTROY_SQ", head, head, (*Device).destroySQ},
		ifc.SetFlowRoot:        {"SET_FLOW_TABLE_ROOT", head, head, nothing},
		ifc.CreateFlowTable:    {"CREATE_FLOW_TABLE", head, head, makeIdle(classFlowTable)},
		ifc.ModifyFlowTable:    {"MODIFY_FLOW_TABLE", head, head, nothing},
		ifc.DestroyFlowTable:   {"DESTROY_FLOW_TABLE", 0x20, head, unmakeIdleAt(classFlowTable, ifc.FlowObject.Table)},
		ifc.CreateFlowGroup:    {"CREATE_FLOW_GROUP", head, head, makeIdle(classFlowGroup)},
		ifc.DestroyFlowGroup:   {"DESTROY_FLOW_GROUP", 0x20, head, unmakeIdleAt(classFlowGroup, ifc.FlowObject.Group)},
		ifc.SetFlow:            {"SET_FLOW_TABLE_ENTRY", head, head, nothing},
		ifc.DeleteFlow:         {"DELETE_FLOW_TABLE_ENTRY", head, head, nothing},
	}
}
