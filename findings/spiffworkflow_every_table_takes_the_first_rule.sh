#!/bin/sh
# Version: SpiffWorkflow 3.2.0
# Source: the DMN specification, hit policies: with UNIQUE (the default) only one rule may match and a second is an
#   error, ANY is an error if the outputs differ, RULE ORDER has the outputs of all, and COLLECT with the aggregation
#   SUM has their sum. The library reads such files as other modelers write them.
# Behaviour: a table of any policy but COLLECT takes the first rule that matches, without an error or warning, and an
#   aggregation is left out. Two rules match in the run, with the fees 10 and 20.
# Output seen:
#   UNIQUE: 10
#   ANY: 10
#   RULE ORDER: 10
#   COLLECT: [10, 20]
#   COLLECT SUM: [10, 20]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile SpiffWorkflow==3.2.0
"$folder/venv/bin/python" - <<'PYTHON'
from lxml import etree
from SpiffWorkflow.bpmn.workflow import BpmnWorkflow
from SpiffWorkflow.camunda.parser import CamundaParser

PROCESS = """<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
  xmlns:camunda="http://camunda.org/schema/1.0/bpmn" targetNamespace="trial"><process id="trial" isExecutable="true">
  <startEvent id="start"><outgoing>first</outgoing></startEvent>
  <sequenceFlow id="first" sourceRef="start" targetRef="decide"/>
  <businessRuleTask id="decide" camunda:decisionRef="fees"><incoming>first</incoming><outgoing>last</outgoing>
  </businessRuleTask>
  <sequenceFlow id="last" sourceRef="decide" targetRef="end"/>
  <endEvent id="end"><incoming>last</incoming></endEvent></process></definitions>"""
TABLE = """<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/" id="trial" name="trial" namespace="trial">
  <decision id="fees" name="fees"><decisionTable id="table" {policy}>
  <input id="input" label="n"><inputExpression id="expression" typeRef="number"><text>n</text></inputExpression></input>
  <output id="output" name="fee" typeRef="number"/>
  <rule id="one"><inputEntry id="over_1"><text>&gt; 1</text></inputEntry>
  <outputEntry id="fee_1"><text>10</text></outputEntry></rule>
  <rule id="two"><inputEntry id="over_2"><text>&gt; 2</text></inputEntry>
  <outputEntry id="fee_2"><text>20</text></outputEntry></rule></decisionTable></decision></definitions>"""
SEEN = {
    "UNIQUE": ('hitPolicy="UNIQUE"', 10),
    "ANY": ('hitPolicy="ANY"', 10),
    "RULE ORDER": ('hitPolicy="RULE ORDER"', 10),
    "COLLECT": ('hitPolicy="COLLECT"', [10, 20]),
    "COLLECT SUM": ('hitPolicy="COLLECT" aggregation="SUM"', [10, 20]),
}
for name, (policy, value) in SEEN.items():
    parser = CamundaParser()
    parser.add_bpmn_xml(etree.fromstring(PROCESS))
    parser.add_dmn_xml(etree.fromstring(TABLE.format(policy=policy)))
    workflow = BpmnWorkflow(parser.get_spec("trial"))
    workflow.task_tree.data["n"] = 5
    workflow.run_all()
    fee = workflow.last_task.data["fee"]
    print(f"{name}: {fee}")
    assert fee == value
PYTHON
