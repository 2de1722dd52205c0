{{- define "spanwire.name" -}}
{{- if contains "spanwire" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-spanwire" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "spanwire.selector" -}}
app.kubernetes.io/name: spanwire
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spanwire.labels" -}}
{{ include "spanwire.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* One activemq.xml. Takes root, the number of the pod, and whether the topology is standby. */ -}}
{{- define "spanwire.configuration" -}}
{{- $values := .root.Values -}}
{{- $name := include "spanwire.name" .root -}}
{{- $tls := $values.tls.existingSecret -}}
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{{ $name }}{{ if not .standby }}-{{ .number }}{{ end }}"
        brokerId="{{ $name }}{{ if not .standby }}-{{ .number }}{{ end }}" dataDirectory="/var/lib/spanwire/data">
{{- with $values.broker.elements }}
{{ . | trim | indent 2 }}
{{- end }}
{{- if and (not .standby) (gt .number 0) }}
  <networkConnectors>
  {{- $root := .root }}
  {{- range $other := until .number }}
    <networkConnector name="to-{{ $name }}-{{ $other }}" duplex="true" userName="{{ $values.networkUser }}"
        password="${spanwire.password.{{ $values.networkUser | replace "-" "." }}}"
        uri="static:({{ if $tls }}ssl{{ else }}tcp{{ end }}://{{ $name }}-{{ $other }}.{{ $name }}-pods.{{ $root.Release.Namespace }}.svc:{{ $values.ports.openwire }})"/>
  {{- end }}
  </networkConnectors>
{{- end }}
{{- if .standby }}
  <persistenceAdapter>
    <kahaDB directory="/var/lib/spanwire/data">
      <locker>
        <lease-database-locker lockAcquireSleepInterval="{{ int $values.broker.leaseMilliseconds }}" leaseHolderId="${pod.name}"/>
      </locker>
    </kahaDB>
  </persistenceAdapter>
{{- end }}
  <plugins>
    <simpleAuthenticationPlugin anonymousAccessAllowed="false">
      <users>
      {{- range $values.users }}
        <authenticationUser username="{{ .name }}" password="${spanwire.password.{{ .name | replace "-" "." }}}" groups="{{ join "," .groups }}"/>
      {{- end }}
      </users>
    </simpleAuthenticationPlugin>
    {{- with $values.rights }}
    <authorizationPlugin>
      <map>
        <authorizationMap>
          <authorizationEntries>
          {{- range . }}
            <authorizationEntry {{ with .queue }}queue="{{ . | replace ">" "&gt;" }}"{{ end }}{{ with .topic }}topic="{{ . | replace ">" "&gt;" }}"{{ end }} read="{{ join "," .read }}" write="{{ join "," .write }}" admin="{{ join "," .admin }}"/>
          {{- end }}
          </authorizationEntries>
        </authorizationMap>
      </map>
    </authorizationPlugin>
    {{- end }}
  </plugins>
{{- if $tls }}
  <sslContext>
    <sslContext keyStore="/etc/spanwire-tls/tls.crt" keyStoreKey="/etc/spanwire-tls/tls.key"
                {{- if $values.tls.authority }} trustStore="/etc/spanwire-tls/ca.crt"{{ end }}/>
  </sslContext>
{{- end }}
  <systemUsage>
    <systemUsage>
      <memoryUsage><memoryUsage limit="{{ $values.broker.memoryLimit }}"/></memoryUsage>
      <storeUsage><storeUsage limit="{{ $values.broker.storeLimit }}"/></storeUsage>
    </systemUsage>
  </systemUsage>
  <transportConnectors>
    <transportConnector name="openwire" uri="{{ if $tls }}ssl{{ else }}tcp{{ end }}://0.0.0.0:{{ $values.ports.openwire }}"/>
    <transportConnector name="stomp" uri="stomp{{ if $tls }}+ssl{{ end }}://0.0.0.0:{{ $values.ports.stomp }}"/>
  </transportConnectors>
  <web host="0.0.0.0" port="{{ $values.ports.web }}"{{ if $tls }} tls="true"{{ end }}/>
</broker>
{{- end }}
