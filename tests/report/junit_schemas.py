"""What the schemas of two readers of JUnit XML allow, in our own words.

JENKINS: junit-10.xsd of the xUnit plugin of Jenkins (MIT). SUREFIRE: surefire-test-report.xsd of Maven's Surefire
(Apache-2.0). Both are the parts that a file of ours can touch: which elements there are, in which order, which
attributes they may and must have, and how a time is written.
"""

_HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
_TIME = """
<xs:simpleType name="seconds"><xs:restriction base="xs:string">
  <xs:pattern value="(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\\.[0-9]{0,3})?"/>
</xs:restriction></xs:simpleType>"""
_PROPERTIES = """
<xs:element name="properties"><xs:complexType><xs:sequence>
  <xs:element name="property" minOccurs="0" maxOccurs="unbounded"><xs:complexType>
    <xs:attribute name="name" type="xs:string" use="required"/>
    <xs:attribute name="value" type="xs:string" use="required"/>
  </xs:complexType></xs:element>
</xs:sequence></xs:complexType></xs:element>"""

JENKINS = f"""{_HEAD}{_TIME}{_PROPERTIES}
<xs:complexType name="problem" mixed="true">
  <xs:attribute name="type" type="xs:string"/><xs:attribute name="message" type="xs:string"/>
</xs:complexType>
<xs:element name="testcase"><xs:complexType>
  <xs:choice minOccurs="0" maxOccurs="unbounded">
    <xs:element name="skipped" type="problem"/><xs:element name="error" type="problem"/>
    <xs:element name="failure" type="problem"/>
    <xs:element name="system-out" type="xs:string"/><xs:element name="system-err" type="xs:string"/>
  </xs:choice>
  <xs:attribute name="name" type="xs:string" use="required"/><xs:attribute name="time" type="xs:string"/>
  <xs:attribute name="classname" type="xs:string"/><xs:attribute name="group" type="xs:string"/>
</xs:complexType></xs:element>
<xs:element name="testsuite"><xs:complexType>
  <xs:choice minOccurs="0" maxOccurs="unbounded">
    <xs:element ref="testsuite"/><xs:element ref="properties"/><xs:element ref="testcase"/>
    <xs:element name="system-out" type="xs:string"/><xs:element name="system-err" type="xs:string"/>
  </xs:choice>
  <xs:attribute name="name" type="xs:string" use="required"/>
  <xs:attribute name="tests" type="xs:string" use="required"/>
  <xs:attribute name="failures" type="xs:string" use="required"/>
  <xs:attribute name="errors" type="xs:string" use="required"/>
  <xs:attribute name="skipped" type="xs:string"/><xs:attribute name="time" type="seconds"/>
  <xs:attribute name="timestamp" type="xs:string"/><xs:attribute name="hostname" type="xs:string"/>
  <xs:attribute name="id" type="xs:string"/><xs:attribute name="package" type="xs:string"/>
</xs:complexType></xs:element>
<xs:element name="testsuites"><xs:complexType>
  <xs:sequence><xs:element ref="testsuite" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
  <xs:attribute name="name" type="xs:string"/><xs:attribute name="time" type="seconds"/>
  <xs:attribute name="tests" type="xs:string"/><xs:attribute name="failures" type="xs:string"/>
  <xs:attribute name="errors" type="xs:string"/>
</xs:complexType></xs:element>
</xs:schema>"""

SUREFIRE = f"""{_HEAD}{_TIME}{_PROPERTIES}
<xs:complexType name="problem"><xs:simpleContent><xs:extension base="xs:string">
  <xs:attribute name="message" type="xs:string"/><xs:attribute name="type" type="xs:string" use="required"/>
</xs:extension></xs:simpleContent></xs:complexType>
<xs:complexType name="skip"><xs:simpleContent><xs:extension base="xs:string">
  <xs:attribute name="message" type="xs:string"/>
</xs:extension></xs:simpleContent></xs:complexType>
<xs:element name="testsuite"><xs:complexType>
  <xs:sequence>
    <xs:element ref="properties" minOccurs="0" maxOccurs="unbounded"/>
    <xs:element name="testcase" minOccurs="0" maxOccurs="unbounded"><xs:complexType>
      <xs:sequence>
        <xs:element name="failure" type="problem" minOccurs="0" maxOccurs="unbounded"/>
        <xs:element name="skipped" type="skip" minOccurs="0"/>
        <xs:element name="error" type="problem" minOccurs="0"/>
        <xs:element name="system-out" type="xs:string" minOccurs="0"/>
        <xs:element name="system-err" type="xs:string" minOccurs="0"/>
      </xs:sequence>
      <xs:attribute name="name" type="xs:string" use="required"/><xs:attribute name="classname" type="xs:string"/>
      <xs:attribute name="group" type="xs:string"/><xs:attribute name="time" type="seconds" use="required"/>
    </xs:complexType></xs:element>
  </xs:sequence>
  <xs:attribute name="name" type="xs:string" use="required"/><xs:attribute name="time" type="seconds"/>
  <xs:attribute name="tests" type="xs:string" use="required"/>
  <xs:attribute name="errors" type="xs:string" use="required"/>
  <xs:attribute name="skipped" type="xs:string" use="required"/>
  <xs:attribute name="failures" type="xs:string" use="required"/>
  <xs:attribute name="group" type="xs:string"/>
</xs:complexType></xs:element>
</xs:schema>"""
